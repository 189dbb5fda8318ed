#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The first hour of a new user.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

CLIENT=$LAB_BIN/longreach
DAEMON=$LAB_BIN/longreachd

version_without_daemon() {
	NOTE=$("$CLIENT" --control "$LAB_DIR/nobody" --version) || why "it exits with $?" || return
	[[ $NOTE = "longreach "[0-9]* ]] || why "it says: $NOTE"
}

check_without_links() {
	mkdir -p "$LAB_DIR/empty"
	lab_in ea "$DAEMON" --control "$LAB_DIR/empty/control" --config-dir "$LAB_DIR/empty" >"$LAB_DIR/empty/log" 2>&1 &
	local pid=$! status
	lab_wait 5 "$CLIENT" --control "$LAB_DIR/empty/control" status || why "no daemon: $(tail -1 "$LAB_DIR/empty/log")" || return
	"$CLIENT" --control "$LAB_DIR/empty/control" status --check >"$LAB_DIR/out" 2>&1
	status=$?
	kill $pid
	wait $pid
	NOTE=$(head -1 "$LAB_DIR/out")
	[ $status = 1 ] || why "status --check exits with $status though no link is loaded" || return
	[[ $NOTE = *"no link is loaded"* ]] || why "it says: $NOTE"
}

# A user who is not root, and one with half of the capabilities.
says_what_it_lacks() { # setpriv's words of what stays, capability that is named, one that is not
	local status
	lab_conf a >"$LAB_DIR/alone.conf"
	cp "$DAEMON" "$LAB_DIR/longreachd"
	chmod 755 "$LAB_DIR"
	lab_in ea timeout 5 setpriv --reuid 65534 --clear-groups --inh-caps="$1" --ambient-caps="$1" \
		"$LAB_DIR/longreachd" --control "$LAB_DIR/alone.control" --config "$LAB_DIR/alone.conf" >"$LAB_DIR/out" 2>&1
	status=$?
	NOTE=$(sed -n '1s/.*error: //p' "$LAB_DIR/out" | cut -c1-100)
	[ $status = 1 ] || why "it ends with $status: $(tail -1 "$LAB_DIR/out")" || return
	[[ $NOTE = *$2* ]] || why "it does not name $2: $NOTE" || return
	[ -z "$3" ] || [[ $NOTE != *$3* ]] || why "it names $3: $NOTE"
}

# Units are installed below /usr, and a copy keeps the links of a merged-/usr target.
install_is_copied() {
	local from=$LAB_DIR/install to=$LAB_DIR/target
	if [ "$LAB_BIN" != "$LAB_BUILD" ] || ! grep -q "^DEPS" "$LAB_ROOT/Makefile"; then
		WHY="not in a tree"
		return 77
	fi
	make -C "$LAB_ROOT" O="$LAB_BUILD" -o "$LAB_BUILD/longreachd" -o "$LAB_BUILD/longreach" -o lib \
		-o "$LAB_BUILD/longreach-counters.7" install DESTDIR="$from" >"$LAB_DIR/out" 2>&1 || why "$(tail -1 "$LAB_DIR/out")" || return
	[ -f "$from/usr/lib/systemd/system/longreachd.service" ] || why "no unit in /usr/lib/systemd/system" || return
	[ "$(ls "$from")" = "etc
usr" ] || why "it installs into $(ls "$from" | tr '\n' ' ')" || return
	mkdir -p "$to/usr/lib" "$to/usr/bin"
	ln -s usr/lib "$to/lib"
	tar -C "$from" --owner=0 --group=0 -cf - etc usr | tar -C "$to" --no-overwrite-dir -xpf - || why "tar" || return
	[ -L "$to/lib" ] && [ -f "$to/lib/systemd/system/longreachd.service" ] || why "the target's /lib is no link any more"
}

keygen() { # arguments...
	"$CLIENT" keygen "$@" >"$LAB_DIR/out" 2>&1
}

keys_are_renewed() {
	local before
	keygen link --dir "$LAB_DIR/set" || why "$(head -1 "$LAB_DIR/out")" || return
	before=$(cat "$LAB_DIR"/set/*/* | sha256sum)
	! keygen link --dir "$LAB_DIR/set" || why "it wrote over keys without being asked to" || return
	NOTE=$(sed 's|.*File exists: ||' "$LAB_DIR/out" | head -1)
	grep -q -- --renew "$LAB_DIR/out" || why "it does not say what to do: $NOTE" || return
	[ "$before" = "$(cat "$LAB_DIR"/set/*/* | sha256sum)" ] || why "it touched the keys" || return
	keygen link --dir "$LAB_DIR/set" --renew || why "$(head -1 "$LAB_DIR/out")" || return
	keygen link --dir "$LAB_DIR/sites" --sites sapporo,wakkanai && keygen link --dir "$LAB_DIR/sites" --renew ||
		why "$(head -1 "$LAB_DIR/out")" || return
	[ "$(ls "$LAB_DIR/sites" | tr '\n' ' ')" = "sapporo wakkanai " ] || why "renewed for other sites: $(ls "$LAB_DIR/sites")" || return
	! keygen link --dir "$LAB_DIR/nothing" --renew || why "a set was renewed that is not there" || return
	[ "$before" != "$(cat "$LAB_DIR"/set/*/* | sha256sum)" ] || why "the keys are the old ones" || return
	[ "$(find "$LAB_DIR/set" -type f | wc -l)" = 6 ] || why "it leaves $(find "$LAB_DIR/set" -type f | tr '\n' ' ')"
}

# A link whose name has all characters that longreach.conf(5) allows comes up.
any_name() {
	local name=Osaka.v2-x_y edge site=to.kyo other=o_s-aka suffix
	keygen $name --dir "$LAB_DIR/named" --sites $site,$other || why "$(head -1 "$LAB_DIR/out")" || return
	! keygen .hidden --dir "$LAB_DIR/named2" || why ".hidden was taken" || return
	! keygen "$(printf 'x%.0s' {1..32})" --dir "$LAB_DIR/named2" || why "a name of 32 letters was taken" || return
	LAB_CONF_NAME=$name
	for edge in a b; do
		for suffix in key crt ca.crt; do
			cp "$LAB_DIR/named/$site/$name.$suffix" "$LAB_DIR/keys/$edge/link.$suffix"
		done
		LAB_PEER_NAME=$other.$name lab_edge_start $edge
		site=o_s-aka other=to.kyo
	done
	lab_link_up
}

quiet_link_is_drawn() {
	"$CLIENT" --control "$LAB_DIR/a/control" trace "${LAB_CONF_NAME:-link}" --past --seconds 0.5 --plot "$LAB_DIR/q.svg" \
		>"$LAB_DIR/out" 2>&1 || why "$(head -1 "$LAB_DIR/out")" || return
	[ ! -s "$LAB_DIR/out" ] || why "it says: $(head -1 "$LAB_DIR/out")" || return
	grep -q 'path (rate fixed)' "$LAB_DIR/q.svg" || why "the curve is not named after its path" || return
	grep -q "from $(date -u +%Y-%m-%d) .* UTC" "$LAB_DIR/q.svg" || why "no time of day"
}

fits_the_terminal() { # columns
	local widest
	timeout 4 script -qec "stty cols $1; exec timeout 2 $CLIENT --control $LAB_DIR/a/control status --watch --flows" \
		"$LAB_DIR/typescript" >/dev/null </dev/null
	widest=$(sed 's/\x1b\[[HJ]//g; s/\r//' "$LAB_DIR/typescript" | grep -v '^Script' | awk '{ if (length > n) n = length } END { print n + 0 }')
	NOTE="widest line $widest of $1"
	[ "$widest" -gt 40 ] && [ "$widest" -le "$1" ] || why "$NOTE"
}

# README has the pair of link files in two columns, one for each edge; the keys are made as in README's step.
pair_of_readme() {
	local e sites=(sapporo wakkanai) i=0
	[ "$(wc -l <"$LAB_ROOT/README.md")" -lt 250 ] || why "README has 250 lines or more" || return
	"$CLIENT" keygen north --dir "$LAB_DIR/north" --sites sapporo,wakkanai >"$LAB_DIR/out" 2>&1 || why "$(head -1 "$LAB_DIR/out")" || return
	for e in one other; do
		sed -n '/^       \[Link\]  *\[Link\]/,/^$/p' "$LAB_ROOT/README.md" | cut -c 8- |
			awk -v side=$e '{ print side == "one" ? $1 : $2 }' |
			sed "s,/etc/longreach/keys,$LAB_DIR/north/${sites[i]}," >"$LAB_DIR/$e.conf"
		"$DAEMON" --check-config "$LAB_DIR/$e.conf" --offline >"$LAB_DIR/out" 2>&1 || why "$e: $(head -1 "$LAB_DIR/out")" || return
		i=$((i + 1))
	done
	[ "$(grep -c = "$LAB_DIR/other.conf")" -ge 14 ] || why "README has no pair of link files"
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 30
check "longreach --version needs no daemon" version_without_daemon
check "status --check is not content with no link at all" check_without_links
check "without root longreachd says what it lacks" says_what_it_lacks -all "CAP_NET_ADMIN and CAP_NET_RAW" ""
check "with CAP_NET_ADMIN alone it names the other" says_what_it_lacks +net_admin CAP_NET_RAW CAP_NET_ADMIN
check "make install DESTDIR= can be copied over a merged /usr" install_is_copied
check "keygen renews a set when it is told to" keys_are_renewed
check "keygen takes every name that a link may have" any_name
check "trace --past --plot of a quiet link" quiet_link_is_drawn
check "status --watch fits 80 columns" fits_the_terminal 80
check "the pair of link files in README passes --check-config" pair_of_readme
check_end
