#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Floods from foreign senders: an unprivileged user on edge A's machine (from A's own address), and another machine on the WAN.
# During each flood a new session must come up within 5 s (lab_free_ms) of the other edge's start, and a running session must
# keep at least 0.95 of its goodput.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"
. "$(dirname "$0")/floods.sh"

RATE=100M # far below what the machine can do: a flood's own work must not be what slows the link down

goodput() {
	LAB_PATIENCE=100 lab_rcperf --size 65536 --depth 16 --secs 3 || return
	lab_goodput_gbps
}

# The best of three: the machine has other work, too.
baseline() {
	local best=0 g i
	for i in 1 2 3; do
		g=$(goodput) || why "no traffic" || return
		holds "$g > $best" && best=$g
	done
	BASE=$best
	NOTE="$BASE Gbit/s"
}

session_is_new() { # before
	[ "$(lab_status b '.links[0].peer.sessions')" -gt "$1" ] && lab_link_is_up
}

under_flood() { # user|box what
	local before g best=0 i r
	flood_start "$@" || why "no flood: $(tail -1 "$LAB_DIR/flood.out")" || return
	for i in 1 2 3; do
		g=$(goodput) || why "no traffic" || return
		holds "$g > $best" && best=$g
		holds "$best / $BASE >= 0.97" && break
	done
	r=$(awk "BEGIN { printf \"%.3f\", $best / $BASE }")
	before=$(lab_status b '.links[0].peer.sessions')
	lab_edge_stop a
	lab_edge_start a
	lab_wait 5 edge_a_answers || why "edge A does not start" || return
	lab_within 5 session_is_new "$before"
	i=$?
	flood_stop
	NOTE="goodput $r of without, a new session after $LAB_TOOK_MS ms, $(lab_status b '.links[0].peer.refused_connections') refused"
	[ $i = 0 ] || SESSION="no session after ${LAB_TOOK_MS:-} ms: $(lab_status b '.links[0].peer.trouble')"
	holds "$r >= $LEAST" || why "$NOTE"
}

# A goodput that the machine cannot carry is no verdict; a session that does not come is one.
floods() { # as under_flood
	local status SESSION=
	lab_rate_test under_flood "$@"
	status=$?
	[ -z "$SESSION" ] || why "$SESSION" || return
	return $status
}

edge_a_answers() {
	[ "$(lab_status a '.links[0].name')" = link ]
}

# FULL=1: every flood, and goodput as on a machine with nothing else to do.
LEAST=0.8
[ -z "${FULL:-}" ] || LEAST=0.95

lab_up
lab_line --rate $LAB_LINE_RATE --km 30
lab_server $B_HOST
LAB_RATE=$RATE
lab_edges
check "the link comes up" lab_link_up
check "what the floods are made of" flood_scripts
check "goodput without" baseline
for flood in "${FLOODS[@]}"; do
	[[ -n "${FULL:-}" || $flood =~ ^(user connects|box hellos|box syns) ]] || continue
	# shellcheck disable=SC2086 # two words
	check "${flood#*|}" floods ${flood%|*}
done
check_end
