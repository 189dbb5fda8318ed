#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deb_prerm.sh - what the removal of the package notes as undelivered (debian/longreach.prerm), with a stub of longreachd. Needs no
# privileges.
set -u
cd "$(dirname "$0")/.." || exit 2
work=$(mktemp -d /tmp/lr-prerm.XXXXXX)
trap 'rm -rf "$work"' EXIT
tried=0 wrong=0

# The stub prints $work/owes, ends with the status in $work/status, and keeps its arguments, one a line.
mkdir -p "$work/bin" "$work/root/etc/longreach" "$work/root/etc/default" "$work/root/run/longreach"
cat >"$work/bin/longreachd" <<END
#!/bin/sh
printf '%s\n' "\$@" >$work/arguments
cat $work/owes
exit \$(cat $work/status)
END
chmod +x "$work/bin/longreachd"

# case NAME STATUS OWES LINE-OF-/etc/default EXPECTED-ARGUMENTS EXPECTED-NOTES: each of the last two with blanks between words
removal() {
	local noted=none asked=none
	tried=$((tried + 1))
	rm -f "$work/arguments"
	printf '%s' "$3" >"$work/owes"
	echo "$2" >"$work/status"
	printf '%s\n' '# Options of longreachd' "$4" >"$work/root/etc/default/longreach"
	echo /old >"$work/root/etc/longreach/.undelivered"
	DPKG_ROOT=$work/root PATH=$work/bin:$PATH sh debian/longreach.prerm remove >"$work/out" 2>&1 || asked="status $?"
	[ ! -e "$work/arguments" ] || asked=$(paste -sd'|' "$work/arguments")
	[ ! -e "$work/root/etc/longreach/.undelivered" ] || noted=$(paste -sd'|' "$work/root/etc/longreach/.undelivered")
	if [ "$asked" = "$5" ] && [ "$noted" = "$6" ]; then
		printf 'ok    %s\n' "$1"
	else
		wrong=$((wrong + 1))
		printf 'FAIL  %s: asked with "%s", noted "%s"\n' "$1" "$asked" "$noted"
		sed 's/^/    /' "$work/out"
	fi
}

there=$work/root/run/longreach/w.0.arena
removal 'nothing is owed' 0 '' 'LONGREACHD_OPTIONS=""' '--owed' none
removal 'a buffer' 0 $'/mnt/w.0.arena\n' 'LONGREACHD_OPTIONS=""' '--owed' /mnt/w.0.arena
removal 'a link file that cannot be parsed' 1 $'/etc/longreach/x.conf\n' '#' '--owed' /etc/longreach/x.conf
removal 'the options of the units' 0 '' 'LONGREACHD_OPTIONS="--config-dir /srv/links --metrics 9470"' \
	'--owed|--config-dir|/srv/links|--metrics|9470' none
removal 'options with quotes of their own' 0 '' "LONGREACHD_OPTIONS=\"--eal='--no-huge -m 512'\"" \
	'--owed|--eal=--no-huge -m 512' none
removal 'options without quotes' 0 '' 'LONGREACHD_OPTIONS=--config-dir=/srv/links' '--owed|--config-dir=/srv/links' none
: >"$there"
removal 'longreachd cannot tell: every buffer counts' 1 '' '#' '--owed' "$there"
removal 'nor does it know an option' 2 '' 'LONGREACHD_OPTIONS="--new"' '--owed|--new' "$there"

echo "$((tried - wrong)) passed, $wrong failed"
[ $wrong = 0 ]
