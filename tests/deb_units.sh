#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deb_units.sh - an upgrade of the package restarts every unit that runs, and a removal stops it: what debhelper writes into the
# package's scripts by debian/rules. Needs no privileges, and no build.
set -u
cd "$(dirname "$0")/.." || exit 2
command -v dh_installsystemd >/dev/null || { echo "skipped: dh_installsystemd is missing" && exit 0; }
work=$(mktemp -d /tmp/lr-units.XXXXXX)
trap 'rm -rf "$work"' EXIT
tried=0 wrong=0

mkdir -p "$work/debian/longreach/lib/systemd/system"
cp debian/{changelog,control,rules,longreach.prerm,longreach.postrm} "$work/debian"
cp systemd/*.service "$work/debian/longreach/lib/systemd/system"
(cd "$work" && make -s -f debian/rules override_dh_installsystemd && dh_installdeb -plongreach) || exit 1

# does NAME UNIT SCRIPT COMMAND
does() {
	tried=$((tried + 1))
	if grep -q "$4 .*$2" "$work/debian/longreach/DEBIAN/$3"; then
		printf 'ok    %s: %s\n' "$2" "$1"
	else
		wrong=$((wrong + 1))
		printf 'FAIL  %s: %s\n' "$2" "$1"
	fi
}

# shellcheck disable=SC2016 # a variable of that script
for unit in systemd/*.service; do
	unit=${unit##*/}
	does 'an upgrade restarts it' "$unit" postinst 'deb-systemd-invoke $_dh_action'
	does 'a removal stops it' "$unit" prerm 'deb-systemd-invoke stop'
	does 'a purge forgets whether it was enabled' "$unit" postrm 'deb-systemd-helper purge'
done

echo "$((tried - wrong)) passed, $wrong failed"
[ $wrong = 0 ]
