#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Misbehaving hosts behind two edges: packets lost on their LANs, no receives posted, pauses, short timeouts, wrong keys,
# death.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

link() { # mode
	LAB_MODE=$1
	lab_relink 300
}

# km, then rcperf's options. Servers with different options listen on different ports.
across() {
	lab_line_set "$1" loss=0.1%
	shift
	lab_rcperf "$@" || why "contents, order or count are wrong" || return
	NOTE=$(lab_result '"\(.goodput_gbps * 1000 | round / 1000) Gbit/s, host retries \(.here.retries), " +
		"RNR \(.here.rnr_rx)"')
}

FROZEN=18601 HANGING=18602 LOSSY=18603 STUCK=18605

# Host B falls silent for good under load, with its TCP connection still open: host A must see its own retry error in time
# instead of being held off for ever, and edge A must report the bytes that it could not deliver.
dead_responder() {
	local server
	lab_server $B_HOST --port 18604 || why "the server does not start" || return
	server=${LAB_SERVER_PIDS##* }
	: >"$LAB_DIR/a/log"
	LAB_EXTRA="Tuning.GiveUp=3s Tuning.StallAfter=500ms" link "$LAB_MODE" || return
	LAB_PATIENCE=80 lab_load --depth 16 --port 18604 || why "no traffic" || return
	kill -STOP $(lab_children "$server")
	! wait "$LAB_LOAD" || why "the requester ended well, though nobody answers it"
	{ kill -9 $(lab_children "$server") "$server"; wait "$server"; } 2>/dev/null
	[ -z "$WHY" ] || return
	NOTE=$(lab_result '.failure // empty' 2>/dev/null | cut -c1-90)
	# The host sees when its retries are used up; its wait for the other program's report afterwards does not count.
	# The edges give the responder up after 3 s.
	[[ $NOTE == *"retries exhausted"* ]] || why "after 80 s the requester still has not heard of it: $NOTE" || return
	[ "$LAB_MODE" = host ] || grep -q flow_failed "$LAB_DIR/a/log" ||
		why "edge A does not say which flow it could not deliver" || return
	lab_edge_alive a && lab_edge_alive b || why "an edge died"
}

# A program with unpaired QPs dies in the middle of its work; the next program between the same hosts must not wait for the
# dead program's bytes.
next_program() {
	local pid
	lab_line_set 300 loss=1%
	lab_rcperf --secs 30 --qps 8 --depth 32 --op mix --size 20000 &
	pid=$!
	sleep "$1"
	{ kill -9 $(lab_children $pid); wait $pid; } 2>/dev/null
	LAB_PATIENCE=200 lab_rcperf --iters 100 --qps 2 --size 20000 --depth 8 || why "the second program fails"
}

# The responder reads nothing for five seconds, while the sender could send ten times the buffer. RNR NAKs hold the sender off;
# its queue pairs live, and acknowledged messages arrive.
stuck_responder() {
	local failed
	lab_edges_stop
	: >"$LAB_DIR/a/log"
	LAB_BUFFER=$((5 * 475000000 / 8 / 10)) link "$LAB_MODE" || return
	across 300 --qps 2 --secs 8 --depth 64 --port $STUCK || return
	failed=$(lab_status a '.links[0].counters.bytes_failed')
	NOTE="$NOTE; buffer $(lab_status a '.links[0].buffer.from_lan.capacity_bytes') B"
	[ "$failed" = 0 ] || why "$failed acknowledged bytes could not be delivered" || return
	! grep -q flow_failed "$LAB_DIR/a/log" || why "edge A gave a flow up" || return
	[ "$LAB_MODE" = host ] || grep -q flow_rnr_back_pressure "$LAB_DIR/a/log" || why "the sender was never held off: no test"
}

# A request is acknowledged early and then refused: the requester's QP must fail, and the edge must report it.
late_error() {
	lab_line_set 300
	LAB_PATIENCE=200 lab_rcperf --secs 3 --size 8192 --depth 16 --bad-rkey-at 500
	[ $? = 1 ] || why "the client did not fail in good order" || return
	NOTE=$(lab_result '.failure' | cut -c1-100)
	[ -n "$NOTE" ] || why "the requester never learned of the refusal" || return
	[ "$LAB_MODE" = host ] || grep -q flow_failed "$LAB_DIR/a/log" || why "edge A's log does not name the flow that failed"
}

lab_up
lab_line --rate $LAB_LINE_RATE
lab_server $B_HOST
lab_server $B_HOST --port $FROZEN --freeze-ms 200 --freeze-after 100 --recv-depth 32
lab_server $B_HOST --port $HANGING --hang-ms 1000 --hang-after 0.3
lab_server $B_HOST --port $STUCK --hang-ms 5000 --hang-after 0.3
lab_server $B_HOST --port $LOSSY --drop 0.02

for mode in near host; do
	check "$mode: the link comes up" link $mode
	check "$mode: 2 % of the packets lost on both LANs" across 300 --op mix --qps 2 --bidir --size 20000 --iters 400 \
		--drop 0.02 --port $LOSSY
	check "$mode: a responder without receives for 200 ms" across 300 --op send --size 8192 --iters 2000 --depth 32 \
		--port $FROZEN
	check "$mode: a responder that stands still for 1 s" across 300 --secs 2 --depth 32 --port $HANGING
	[ "$mode" = host ] && [ -z "${FULL:-}" ] || check "$mode: a responder that reads nothing for 5 s, buffer a tenth of that" stuck_responder
	check "$mode: a requester with timers of 2 to 16 ms, as ConnectX, at 1000 km" across 1000 --adaptive-retrans --secs 1 \
		--depth 32
	check "$mode: 2048 PSNs in flight at path MTU 256, 1 % lost on the LAN" across 0 --op mix --iters 60 --size 65536 \
		--depth 8 --mtu 256 --drop 0.01
	check "$mode: a wrong R_Key" late_error
	check "$mode: a program killed at its start, and the next one" next_program 0.1
	check "$mode: a program killed under load, and the next one" next_program 1
	# seconds of waiting for a host's last retry
	[ "$mode" = host ] && [ -z "${FULL:-}" ] || check "$mode: a responder that dies" dead_responder
done
check_end
