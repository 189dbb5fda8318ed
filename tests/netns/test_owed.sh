#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Barrier=auto with AckMode=host after a start with near: the buffer still owes early-acknowledged packets, and a TCP message must
# not overtake them.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

KB=8192 # of WRITEs: seconds on a line of 20 Mbit/s

barrier() { # a|b
	lab_status "$1" '.links[0].barrier.mode'
}

barrier_is() { # a|b mode
	[ "$(barrier "$1")" = "$2" ]
}

both_barriers_are() { # mode
	[ "$(barrier a)" = "$1" ] && [ "$(barrier b)" = "$1" ] && lab_link_is_up
}

# Host A has completed all its WRITEs and sends a TCP message; then both edges die, and come back in mode host.
near_life_ends() { # how: KILL or TERM
	LAB_MODE=near LAB_RATE=20M LAB_EXTRA=Link.BarrierMax=60s lab_relink 30 rate=25M || return
	# shellcheck disable=SC2086 # several words
	LAB_PATIENCE=300 lab_rcperf --size 65536 --iters $((KB / 64)) --depth $((KB / 64)) $LAB_PATIENT &
	LOAD=$!
	lab_wait 20 word_waits || why "host A was not acknowledged early" || return
	lab_edge_stop a "$1"
	lab_edge_stop b "$1"
}

# Host A has sent the message, so all its WRITEs are completed.
word_waits() {
	[ "$(lab_status b '.links[0].barrier.waiting')" -gt 0 ]
}

the_word_waits() { # how
	local held
	near_life_ends "$1" || return
	rm -f "$LAB_DIR"/[ab]/log
	LAB_MODE=host LAB_RATE=20M LAB_EXTRA=Link.BarrierMax=60s lab_edges
	lab_wait 3 lab_client a status >/dev/null
	lab_wait 3 barrier_is a pair || why "the barrier of edge A is $(barrier a), its buffer owes" || return
	grep -q 'owes packets that an earlier start acknowledged early' "$LAB_DIR/a/log" || why "the log does not say it" || return
	lab_in ha busybox ping -q -i 0.1 -c 300 $B_HOST >/dev/null 2>&1 & # packets of another kind: TCP may pause for seconds
	lab_wait 5 both_barriers_are pair || why "A $(barrier a), B $(barrier b), $(lab_status a '.links[0].state')" || return
	wait $LOAD || why "contents, order or count are wrong" || return
	[ "$(lab_result .there.missing_at_done)" = 0 ] || why "$(lab_result .there.missing_at_done) messages were missing at the word" ||
		return
	held=$(lab_status b '.links[0].counters.barrier_held')
	[ "$held" -gt 0 ] || why "no word was held at B: the test shows nothing" || return
	NOTE="$held packets waited at B"
}

# No packets are owed any more: a start of one edge turns the barrier off at both.
goes_off() {
	lab_client a restart link >"$LAB_DIR/restart.out" 2>&1 || why "$(cat "$LAB_DIR/restart.out")" || return
	lab_wait 5 both_barriers_are off || why "A $(barrier a), B $(barrier b), $(lab_status a '.links[0].state')" || return
	lab_in ha busybox ping -c 2 -i 0.2 -W 2 $B_HOST >/dev/null || why "no ping between the hosts" || return
	sleep 1.5
	both_barriers_are off || why "it comes back: A $(barrier a), B $(barrier b)"
}

# A daemon in mode host that was killed with packets in its buffer owes none that a host believes delivered.
host_life() {
	local edge
	LAB_MODE=host LAB_RATE=20M lab_relink 30 rate=25M || return
	[ "$(barrier a)" = off ] || why "the barrier is on" || return
	LAB_PATIENCE=4 lab_rcperf --size 65536 --secs 10 --depth 32 &
	LOAD=$!
	sleep 1
	lab_edge_stop a KILL
	lab_edge_stop b KILL
	LAB_MODE=host LAB_RATE=20M lab_edges
	lab_link_up || return
	for edge in a b; do
		[ "$(barrier $edge)" = off ] || why "edge $edge: $(barrier $edge)" || return
	done
	wait $LOAD
	return 0
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 30
lab_server $B_HOST
check "killed in near, begun in host: the word waits" the_word_waits KILL
check "drained, and started again: the barrier is off" goes_off
check "stopped in near, begun in host: the word waits" the_word_waits TERM
check "killed in host: no barrier" host_life
check_end
