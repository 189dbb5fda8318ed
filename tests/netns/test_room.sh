#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A link that cannot start (no room for its buffer, a wrong key, or another program on its port): the hosts' IP flows as without
# a daemon.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

no_room() {
	mkdir -p "$LAB_SHM/a"
	mount -t tmpfs -o size=1M none "$LAB_SHM/a"
}
ip_flows_while() { # reason [edge pings]
	local lost edge=${2:-a} n=${3:-100}
	lab_edge_start $edge
	lab_wait 10 grep -q "does not start.*$1" "$LAB_DIR/$edge/log" || why "it does not say \"$1\"" || return
	lab_in ha busybox ping -q -c $n -i 0.05 -W 1 $B_HOST >"$LAB_DIR/ping" 2>&1
	lost=$(sed -n 's/.* \([0-9]*\)% packet loss.*/\1/p' "$LAB_DIR/ping")
	NOTE="$lost % of $n pings lost"
	! grep -q 'link link: started' "$LAB_DIR/$edge/log" || why "it has started" || return
	[ "$lost" = 0 ] || why "$NOTE"
}

ip_without_room() {
	no_room
	ip_flows_while 'no room'
}

ip_without_key() {
	cp "$LAB_DIR/keys/a/link.key" "$LAB_DIR/key.saved"
	cp "$LAB_DIR/keys/b/link.key" "$LAB_DIR/keys/a/link.key"
	ip_flows_while 'key'
}

# An unprivileged user takes the port before the daemon. At least two attempts of the daemon fall into the pings.
ip_without_port() { # edge protocol address
	local port="$2 port 4790 is held by a process of uid 65534" how ms
	[ $2 = TCP ] && how=TCP-LISTEN || how=UDP-RECV
	ip netns exec "$LAB_ID-e$1" setpriv --reuid 65534 --regid 65534 --clear-groups \
		socat -u "$how:4790,bind=$3" /dev/null 2>/dev/null &
	TAKER=$!
	lab_wait 2 eval 'lab_in e'$1' ss -Hlun "sport = :4790" | grep -q . || lab_listens e'$1' 4790'
	ip_flows_while "$port" $1 60 || return
	[ "$(lab_status $1 '.links[0].state')" = failed ] || why "state $(lab_status $1 '.links[0].state')" || return
	lab_client $1 status --check >"$LAB_DIR/check.out" 2>&1 && { why "--check is content"; return; }
	grep -q "$port" "$LAB_DIR/check.out" || why "--check does not say who: $(cat "$LAB_DIR/check.out")" || return
	lab_in e$1 "$LAB_BIN/longreach" --control "$LAB_DIR/$1/control" doctor >"$LAB_DIR/doctor.out" 2>&1
	grep -q "held by process $TAKER (socat)" "$LAB_DIR/doctor.out" ||
		why "the doctor does not name it: $(head -c 300 "$LAB_DIR/doctor.out")" || return
	kill $TAKER
	ms=$(date +%s%3N)
	lab_wait 5 eval '[ "$(lab_status '$1' ".links[0].state")" = waiting ]' || why "it does not start afterwards" || return
	NOTE="$NOTE; it ran $(($(date +%s%3N) - ms)) ms after the port was free"
}

anew() {
	lab_edge_stop a KILL
	umount "$LAB_SHM/a" 2>/dev/null
	rm -f "$LAB_SHM"/a/* "$LAB_DIR/a/log"
}

LAB_EXTRA=Link.Barrier=pair
lab_up
lab_line --rate $LAB_LINE_RATE --km 0
check "a link that finds no room: IP of the hosts flows" ip_without_room
anew
check "a link whose key is a wrong one: IP of the hosts flows" ip_without_key
anew
cp "$LAB_DIR/key.saved" "$LAB_DIR/keys/a/link.key"
check "somebody has its UDP port: IP of the hosts flows" ip_without_port a UDP 192.0.2.1
lab_edges_stop
check "somebody has its TCP port: IP of the hosts flows" ip_without_port b TCP 192.0.2.2
check_end
