#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two links with barriers between the same two edges, in one network namespace each: other hosts, another port of the
# WAN address, the same LAN port and buffer directory. Neither may take, open or close traffic of the other.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

eval "$(declare -f lab_conf | sed '1s/lab_conf/whole_conf/')"
lab_conf() { # a|b: the first link has hosts .2 and .3
	whole_conf "$1" | sed -E 's,(Prefix=10\.101\.[12])\.0/24,\1.0/30,; /Prefix=10\.101\.1[12]\./d; /Prefix=fd00/d'
}

two_conf() { # a|b: the second one .4 to .7
	lab_conf "$1" | sed -E 's,(Prefix=10\.101\.[12])\.0/30,\1.4/30,; s,^LocalAddress=.*,&\nPort=4792,'
}

two_files() {
	local e
	for e in a b; do
		mkdir -p "$LAB_DIR/$e"
		two_conf $e >"$LAB_DIR/$e/two.conf"
	done
}

start_both() {
	local e
	two_files
	for e in a b; do
		LAB_DAEMON_ARGS="--config $LAB_DIR/$e/two.conf" lab_edge_start $e
	done
	lab_wait 15 all_up || why "$(lab_client a status --check 2>&1 | head -2)"
}

all_up() {
	[ "$(lab_status a '[.links[].state] | join(" ")')" = "up up" ] &&
		[ "$(lab_status b '[.links[].state] | join(" ")')" = "up up" ]
}

pings() { # from to
	lab_in ha busybox ping -q -c 2 -W 1 -I "$1" "$2" >"$LAB_DIR/ping" 2>&1
}

# Both at the same time, each followed by its TCP message.
both_carry() {
	lab_rcperf_between 10.101.1.4 10.101.2.4 "$LAB_DIR/two.json" --port 18525 --op mix --qps 2 --size 20000 --iters 100 &
	local two=$!
	lab_rcperf --op mix --qps 2 --size 20000 --iters 100 || why "the first link's fails" || return
	wait $two || why "the second link's fails" || return
	pings 10.101.1.2 10.101.2.2 || why "no ping by the first" || return
	pings 10.101.1.4 10.101.2.4 || why "no ping by the second" || return
	nothing_unsealed
}

nothing_unsealed() {
	local n
	n=$(lab_unsealed)
	[ "$n" = 0 ] || why "$n packets of hosts crossed the line unsealed"
}

rules_of() { # table
	lab_in ea nft list table netdev "$1" >/dev/null 2>&1 && lab_in ea nft list table inet "$1" >/dev/null 2>&1
}

both_rules() { rules_of longreach_link && rules_of longreach_two; }

flushed() {
	both_rules || why "not the tables of both" || return
	lab_in ea nft flush ruleset
	lab_wait 4 both_rules || why "not all are put back: $(lab_in ea nft list tables)" || return
	lab_wait 4 all_up || why "state" || return
	both_carry
}

ip_port_of_one_gone() {
	lab_ip ea link del lr-two
	lab_wait 5 lab_ip ea link show lr-two || why "it is not made again" || return
	lab_wait 5 pings 10.101.1.4 10.101.2.4 || why "no ping by the second" || return
	pings 10.101.1.2 10.101.2.2 || why "no ping by the first"
}

second_waits() { [ "$(lab_status a '.links[] | select(.name == "two") | .state')" = waiting ]; }

# At edge A, where both links run: the first waits for its port while the kernel forwards its other IP, the second is not
# affected.
port_of_one_taken() {
	local sessions ms
	sessions=$(lab_status a '.links[] | select(.name == "link") | .peer.sessions')
	ip netns exec "$LAB_ID-ea" socat -u UDP-RECV:4793 /dev/null 2>/dev/null & # at all addresses
	local taker=$!
	lab_wait 2 eval 'lab_in ea ss -Hlun "sport = :4793" | grep -q .'
	sed -i 's/^Port=4792/Port=4793/' "$LAB_DIR/a/two.conf"
	lab_client a restart two >"$LAB_DIR/restart.out" 2>&1
	grep -q 'does not start yet.*UDP port 4793 is held by' "$LAB_DIR/restart.out" || why "$(cat "$LAB_DIR/restart.out")" ||
		{ kill $taker; return; }
	! lab_in ea nft list table inet longreach_two | grep -q 'oifname != "lr-two"' ||
		why "the hosts' other IP is closed though nobody reads it"
	lab_rcperf --op mix --qps 2 --size 20000 --iters 50 || why "the first link's traffic fails"
	kill $taker
	ms=$(date +%s%3N)
	lab_wait 5 second_waits || why "$(lab_client a status --check 2>&1 | head -2)" || return
	NOTE="it ran $(($(date +%s%3N) - ms)) ms after the port was free"
	sed -i 's/^Port=4793/Port=4792/' "$LAB_DIR/a/two.conf"
	lab_client a restart two >"$LAB_DIR/restart.out" 2>&1
	lab_wait 8 all_up || why "$(lab_client a status --check 2>&1 | head -2)" || return
	[ "$(lab_status a '.links[] | select(.name == "link") | .peer.sessions')" = "$sessions" ] ||
		why "the first link began another session"
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 30
lab_server $B_HOST
lab_server 10.101.2.4 --port 18525
LAB_EXTRA=Link.Barrier=pair
lab_watch_line
check "both links come up" start_both
check "both carry RC, the word behind it, and pings" both_carry
check "flushed rules of both are put back" flushed
check "the IP port of one is deleted" ip_port_of_one_gone
check "the port of one is somebody else's" port_of_one_taken
check_end
