#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The barrier: a sender completes its WRITEs and then sends a TCP message. When the message arrives every byte must have
# arrived; with the barrier off some bytes are missing. rcperf counts messages not executed by then. Also TCP itself: exempt
# ports, throughput, no unsealed packets, leftovers.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

ROUNDS=${ROUNDS:-10} # FULL=1: a thousand
[ -z "${FULL:-}" ] || ROUNDS=1000

link() { # barrier [line options]
	LAB_EXTRA="Link.Barrier=$1"
	lab_relink 300 "${@:2}"
}

# ROUNDS times 64 WRITEs of 64 KiB and the TCP message. EARLY: TCP messages before their bytes; MISSED: missing WRITEs.
tell() { # rounds rcperf-options...
	local rounds=$1 i missing
	shift
	EARLY=0 MISSED=0
	for ((i = 0; i < rounds; i++)); do
		lab_rcperf --iters 64 --depth 64 "$@" || why "round $i: contents, order or count are wrong" || return
		missing=$(lab_result .there.missing_at_done)
		[ "$missing" = 0 ] || EARLY=$((EARLY + 1))
		MISSED=$((MISSED + missing))
	done
	NOTE="heard too early: $EARLY of $rounds, $MISSED messages were missing"
}

nobody_is_early() { # rounds rcperf-options...
	tell "$@" || return
	[ $EARLY = 0 ] || why "$NOTE"
}

hazard_shows() { # rcperf-options...
	tell 5 "$@" || return
	[ $EARLY -gt 0 ] || why "$NOTE: the test would not notice a barrier that does nothing"
}

it_was_the_barrier() {
	local held expired
	held=$(lab_status b '.links[0].counters.barrier_held')
	[ "$(lab_status a '.links[0].barrier.mode')" = pair ] || why "the status does not say pair" || return
	expired=$(lab_status b '.links[0].counters | .barrier_expired + .barrier_waived')
	NOTE="packets held at B: $held, let go early: $expired"
	[ "$held" -gt 0 ] && [ "$expired" = 0 ] || why "$NOTE"
}

mtu() { # bytes
	local ns
	for ns in ha hb; do
		lab_ip "$ns" link set rdma0 mtu "$1"
	done
}

# One TCP stream of so many MB from A to B, in Mbit/s; every byte is compared.
stream() { # MB
	local start end
	head -c "${1}M" /dev/urandom >"$LAB_DIR/sent"
	rm -f "$LAB_DIR/got"
	lab_in hb timeout 60 socat -u TCP-LISTEN:5201,reuseaddr "CREATE:$LAB_DIR/got" 2>"$LAB_DIR/socat.err" &
	lab_wait 3 lab_listens hb 5201 || why "socat does not listen" || return
	start=$(date +%s%N)
	lab_in ha timeout 60 socat -u "OPEN:$LAB_DIR/sent" "TCP:$B_HOST:5201" ||
		why "socat: no connection, or it broke" || return
	wait $!
	end=$(date +%s%N)
	MBIT=$(($1 * 8 * 1048576 * 1000 / (end - start)))
	cmp -s "$LAB_DIR/sent" "$LAB_DIR/got" || why "TCP: not the bytes that were sent"
}

tcp_flows() { # mtu MB least-mbit
	local before after
	before=$(lab_unsealed)
	mtu "$1"
	stream "$2"
	after=$(lab_unsealed)
	mtu 9000
	[ -z "$WHY" ] || return
	NOTE="$MBIT Mbit/s; $((after - before)) packets crossed the line unsealed"
	holds "$MBIT >= $3" || why "$NOTE" || return
	[ "$after" = "$before" ] || why "$NOTE"
}

# TCP and RC at once: neither starves.
side_by_side() {
	local gbit tcp
	stream 30 &
	tcp=$!
	lab_rcperf --secs 1 || why "contents, order or count are wrong" || return
	gbit=$(lab_result '.goodput_gbps * 1000 | round / 1000')
	wait $tcp || why "TCP broke or starved" || return
	cmp -s "$LAB_DIR/sent" "$LAB_DIR/got" || why "TCP: not the bytes that were sent" || return
	NOTE="RC $gbit Gbit/s while TCP sent 30 MB"
}

pings() { # what ping-arguments...
	lab_in ha busybox ping -q -c 2 -W 2 "${@:2}" >"$LAB_DIR/ping" 2>&1 || why "$1: no answer"
}

other_ip() {
	pings "ICMP" $B_HOST && pings "jumbo" -s 8900 $B_HOST && pings "fragments" -s 20000 $B_HOST &&
		pings "IPv6" $B_HOST6 && pings "IPv6 jumbo" -s 8900 $B_HOST6 && pings "IPv6 fragments" -s 20000 $B_HOST6
}

# Messages wait for messages of other queue pairs, and still arrive complete.
causal_traffic() {
	local held expired
	lab_rcperf --op mix --qps 8 --size 20000 --iters 200 || why "contents, order or count are wrong" || return
	[ "$(lab_status a '.links[0].barrier.mode')" = causal ] || why "the status does not say causal" || return
	nobody_is_early 3 --qps 4 --iters 32 || return
	held=$(lab_status b '.links[0].counters.barrier_held')
	expired=$(lab_status b '.links[0].counters.barrier_expired')
	NOTE="$held messages and packets have waited, $expired too long"
	[ "$held" -gt 0 ] && [ "$expired" = 0 ] || why "$NOTE"
}

# A host on a virtual Ethernet that sends pieces of 64 KiB: the kernel cuts them to wire size for the port.
tcp_with_tso() {
	lab_in ha ethtool -K rdma0 tso on gso on >/dev/null
	tcp_flows "$@"
	lab_in ha ethtool -K rdma0 tso off gso off >/dev/null
	[ -z "$WHY" ]
}

GROUP=Host.Group=10.101.1.2+10.101.1.3

# Two workers at one edge: the machine's addresses must come to the same one.
link_with_group() { # [group]
	LAB_EXTRA="Link.Barrier=pair $*" LAB_EXTRA_A=Link.Workers=2
	lab_relink 300
}

# Data from one address of host A, the TCP message from another.
WORD_FROM="--ctl-from 10.101.1.3"

groups_must_agree() {
	lab_edges_stop
	LAB_EXTRA=Link.Barrier=pair LAB_EXTRA_A=$GROUP
	lab_edges
	lab_wait 10 refused || why "state $(lab_status a '.links[0].state')" || return
	NOTE=$(lab_status a '.links[0].peer.difference')
	lab_edges_stop
	LAB_EXTRA_A=
	[ "$NOTE" = "Group= in [Host] names other groups here than there: both edges must name the same" ] || why "$NOTE"
}

refused() {
	[ "$(lab_status a '.links[0].state')" = refused ] && [ "$(lab_status b '.links[0].state')" = refused ]
}

nothing_is_left() {
	local left e
	for e in a b; do
		rm "$(lab_conf_path $e)"
		lab_client $e reload >/dev/null 2>&1 || why "edge $e: reload failed" || return
	done
	lab_edges_stop
	left=$(lab_in ea nft list ruleset | grep -c longreach)
	[ "$left" = 0 ] || why "$left lines of nft rules are left" || return
	! lab_ip ea link show type veth | grep lr-link || why "the IP port is left" || return
	pings "the kernel forwards again" $B_HOST
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 300
lab_watch_line
lab_server $B_HOST
check "off: the link comes up" link off
check "off: the word comes before the bytes" hazard_shows
check "pair: the link comes up" link pair
check "pair: every byte is there, $ROUNDS of $ROUNDS" nobody_is_early $ROUNDS
check "pair: they waited for it" it_was_the_barrier
check "pair: 8 QPs" nobody_is_early 3 --qps 8 --iters 16
check "pair: small messages" nobody_is_early 3 --size 256
check "pair: IP that is neither RoCE nor TCP" other_ip
check "pair: TCP, MTU 9000" tcp_flows 9000 30 20
check "pair: TCP, MTU 1500" tcp_flows 1500 15 10
check "pair: RC and TCP side by side" side_by_side
check "pair: TCP from a host with TSO on this machine" tcp_with_tso 9000 30 20
lab_servers_stop
lab_server $B_HOST --port 22
check "pair: port 22 waits for nothing" hazard_shows --port 22
lab_servers_stop
lab_server $B_HOST
check "pair, 1 % loss: the link comes up" link pair loss=0.01
check "pair, 1 % loss: every byte is there, $ROUNDS of $ROUNDS" nobody_is_early $ROUNDS
check "causal: the link comes up" link causal
check "causal: 8 QPs of mixed messages, and a word" causal_traffic
check "two addresses, no group: the link comes up" link_with_group
check "two addresses, no group: the word comes before the bytes" hazard_shows $WORD_FROM
check "two addresses in a group: the link comes up" link_with_group $GROUP
check "two addresses in a group: every byte is there" nobody_is_early 5 $WORD_FROM
check "two addresses in a group: TCP" tcp_flows 9000 10 20
check "groups that differ are refused" groups_must_agree
check "pair: the link comes up again" link pair
check "nothing is left behind" nothing_is_left
check_end
