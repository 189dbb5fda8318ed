#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A buffer in use and a file that asks for another one: a start goes on with the buffer that is there, whatever Rate=,
# MaxFlows= or Workers= say by then, and an operator's restart takes the new values when the buffer is empty. A queue pair
# of the hosts goes on all the time. FULL=1: also with a buffer that is full all the time.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

rewrite() { # sed-expression
	sed -i "$1" "$(lab_conf_path a)"
}

client() { # arguments...: its status; what it says in $LAB_DIR/said
	lab_client a "$@" >"$LAB_DIR/said" 2>&1
}

said() { grep -q -- "$1" "$LAB_DIR/said" || why "it said: $(head -3 "$LAB_DIR/said" | tr '\n' ';')"; }

of() { lab_status a ".links[0] | $1"; }

capacity() { of .buffer_plan.capacity_bytes; }
flows() { of .flow_counts.max; }

opened() { grep -c 'flow_opened' "$LAB_DIR/a/log"; }

up_again() {
	lab_wait 10 lab_link_is_up || why "state $(of .state): $(of .error)"
}

kill_child() {
	local child
	child=$(lab_edge_child a)
	kill -KILL "$child"
	lab_wait 5 lab_gone "$child" || why "the child lives" || return
	lab_wait 5 lab_edge_child a || why "no other child"
}

# The queue pair sends meanwhile, and its flow is found again: it is not learnt anew.
killed() {
	local before
	before=$(opened)
	kill_child && up_again || return
	sleep 1
	[ "$(opened)" = "$before" ] || why "the flow was forgotten"
}

# A message may be under way at the moment of a restart: then the buffer is not empty, and the operator tries again.
restart_until() { # function arguments...
	local try
	for try in 1 2 3 4 5; do
		client restart link || why "$(head -1 "$LAB_DIR/said")" || return
		up_again || return
		"$@" && return
	done
	why "it said: $(head -1 "$LAB_DIR/said")"
}

# One queue pair with a message now and then: the buffer is empty most of the time.
beside_a_queue_pair() { # function...
	# shellcheck disable=SC2086 # several words
	lab_load --op "${OP:-write}" --size 20000 $LAB_PATIENT --every-ms "${EVERY:-40}" || why "no traffic" || return
	"$@"
	[ -n "$WHY" ] || lab_load_moves || why "no traffic at the end"
	lab_load_end || why "contents, order or count are wrong: $(tail -1 "$LAB_DIR/rcperf.err")" || return
	NOTE="$NOTE $(lab_result '"\(.messages) messages, \(.here.timeouts) timeouts, slowest \(.here.latency_us.max) us"')"
	[ -z "$WHY" ]
}

# The plan for Size=auto follows Rate=; the buffer does not, before a restart finds it empty.
rate_then_kill() {
	local before
	before=$(capacity)
	rewrite 's/^Rate=.*/Rate=300M/'
	client reload || why "$(head -1 "$LAB_DIR/said")" || return
	[ "$(of .restart_needed)" = "" ] || why "a reload of Rate= leaves $(of .restart_needed)" || return
	killed || return
	said 'link link: changed; its buffer stays as it was made, .*longreach restart link' || return
	[ "$(capacity)" = "$before" ] || why "another buffer: $(capacity), not $before" || return
	[ "$(of .rate_bps)" = 300000000 ] || why "Rate= is not in force" || return
	[[ $(of .restart_needed) = *"Rate= and Distance= ask for another"* ]] || why "status: $(of .restart_needed)" || return
	grep -q 'link link: its buffer stays as it was made' "$LAB_DIR/a/log" || why "the log is silent"
}

# Nothing but the buffer waits: other keys are in force at the next reload.
rate_again() {
	rewrite 's/^Rate=.*/Rate=350M/'
	client reload || why "$(head -1 "$LAB_DIR/said")" || return
	[ "$(of .rate_bps)" = 350000000 ] || why "Rate= is not in force" || return
	rewrite 's/^Rate=.*/Rate=300M/'
	client reload || why "$(head -1 "$LAB_DIR/said")"
}

held_then_kill() {
	local before
	before=$(flows)
	rewrite 's/^MaxFlows=.*/MaxFlows=64/'
	! client reload || why "a running link took MaxFlows=" || return
	said 'goes on as it was started, .*MaxFlows=' || return
	killed || return
	[ "$(flows)" = "$before" ] || why "places for $(flows) flows, not $before" || return
	[[ $(of .restart_needed) = *"places for $before flows: "*MaxFlows=* ]] || why "status: $(of .restart_needed)"
}

restart_takes() {
	local before
	before=$(capacity)
	restart_until has_flows 64 || return
	[ "$(capacity)" -lt "$before" ] || why "the buffer still has $(capacity) bytes" || return
	[ "$(of .restart_needed)" = "" ] || why "still: $(of .restart_needed)"
}

workers() { # number
	rewrite "/^Workers=/d; /^\[Link\]/a Workers=$1"
	restart_until has_workers "$1" || return
	[ "$(of .restart_needed)" = "" ] || why "still: $(of .restart_needed)"
}

has_flows() { [ "$(flows)" = "$1" ]; }
has_workers() { [ "$(of .workers)" = "$1" ]; }

more_and_fewer_workers() {
	workers 2 && sleep 1 && workers 1 || return
	! grep -E 'flow_failed|flow_in_doubt|buffer_lost' "$LAB_DIR"/[ab]/log >"$LAB_DIR/lost" || why "$(head -1 "$LAB_DIR/lost")"
}

# The line is cut: the buffer holds packets that the hosts believe delivered, and keeps the link's shape, also over a kill.
full_buffer() {
	lab_line_ctl cut
	sleep 0.5
	rewrite '/^Workers=/d; /^MaxFlows=/d; /^\[Link\]/a Workers=2'
	client restart link || why "$(head -1 "$LAB_DIR/said")" || return
	said 'restarted; .*goes on with Workers=1 and Lanes=64, not 2 and 64.*longreach restart link' || return
	[ "$(of .workers)" = 1 ] || why "$(of .workers) workers" || return
	kill_child || return
	lab_wait 5 runs_with 1 || why "after a kill: $(of .state), $(of .workers) workers: $(of .error)" || return
	[[ $(of .restart_needed) = *"Workers=1"* ]] || why "status: $(of .restart_needed)" || return
	lab_line_ctl uncut
	up_again || return
	! client reload || why "a running link took Workers=" || return
	said 'goes on as it was started, .*Workers='
}

arenas_in() { compgen -G "$LAB_SHM/$1/*.arena" >/dev/null; }

moved() { arenas_in a2 && ! arenas_in a; }

# The line is cut: the packets that the hosts believe delivered are in the former directory, and the link stays there.
another_directory() {
	mkdir -p "$LAB_SHM/a2"
	lab_line_ctl cut
	sleep 0.5
	rewrite "s|^Directory=.*|Directory=$LAB_SHM/a2|"
	client restart link || why "$(head -1 "$LAB_DIR/said")" || return
	said "restarted; .*goes on with Directory=$LAB_SHM/a, not $LAB_SHM/a2: .*longreach restart link" || return
	! arenas_in a2 || why "a buffer was made in the new directory" || return
	lab_line_ctl uncut
	up_again || return
	restart_until moved || return
	! grep -E 'flow_failed|flow_in_doubt|buffer_lost' "$LAB_DIR"/[ab]/log >"$LAB_DIR/lost" || why "$(head -1 "$LAB_DIR/lost")"
}

runs_with() { # workers
	has_workers "$1" && [ "$(of .state)" != failed ]
}

empty_at_last() {
	restart_until has_workers 2 || return
	lab_rcperf --op mix --qps 2 --size 20000 --iters 50 || why "no traffic: $(tail -1 "$LAB_DIR/rcperf.err")"
}

start_both() {
	lab_edges
	lab_link_up
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 30
lab_server $B_HOST
LAB_MODE=near LAB_BUFFER=auto
LAB_EXTRA="Link.Distance=40000km Buffer.MaxFlows=256"
check "both edges up, Size=auto" start_both
check "Rate= reloaded, then SIGKILL: the buffer is taken up" beside_a_queue_pair rate_then_kill
check "Rate= can still be reloaded" rate_again
check "MaxFlows= held back, then SIGKILL: the buffer is taken up" beside_a_queue_pair held_then_kill
EVERY=400 check "restart on an empty buffer: new size, queue pairs go on" beside_a_queue_pair restart_takes
EVERY=400 check "restart on an empty buffer: more workers, then fewer" beside_a_queue_pair more_and_fewer_workers
EVERY=400 check "restart with another Directory=: moves when the buffer is empty" beside_a_queue_pair another_directory
if [ -n "${FULL:-}" ]; then
	check "a full buffer keeps its workers over restart and SIGKILL" beside_a_queue_pair full_buffer
	check "and the next restart takes the file" empty_at_last
fi
check_end
