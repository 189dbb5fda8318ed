#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A link that cannot start, since there is no room for its buffer or its key is a wrong one: the hosts' IP goes on as
# without a daemon.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

no_room() {
	mkdir -p "$LAB_SHM/a"
	mount -t tmpfs -o size=1M none "$LAB_SHM/a"
}
says() { grep -q "$1" "$LAB_DIR/a/log"; }

ip_flows_while() { # reason
	local lost
	lab_edge_start a
	lab_wait 10 says "does not start.*$1" || why "it does not say \"$1\"" || return
	lab_in ha busybox ping -q -c 100 -i 0.05 -W 1 $B_HOST >"$LAB_DIR/ping" 2>&1
	lost=$(sed -n 's/.* \([0-9]*\)% packet loss.*/\1/p' "$LAB_DIR/ping")
	NOTE="$lost % of 100 pings lost over 5 s"
	! says 'link link: started' || why "it has started" || return
	[ "$lost" = 0 ] || why "$NOTE"
}

ip_without_room() {
	no_room
	ip_flows_while 'no room'
}

ip_without_key() {
	cp "$LAB_DIR/keys/b/link.key" "$LAB_DIR/keys/a/link.key"
	ip_flows_while 'key'
}

anew() {
	lab_edge_stop a KILL
	umount "$LAB_SHM/a"
	rm -f "$LAB_SHM"/a/* "$LAB_DIR/a/log"
}

LAB_EXTRA=Link.Barrier=pair
lab_up
lab_line --rate $LAB_LINE_RATE --km 0
check "a link that finds no room: IP of the hosts flows" ip_without_room
anew
check "a link whose key is a wrong one: IP of the hosts flows" ip_without_key
check_end
