#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_beside.sh - a link beside floods from foreign senders: the ratio of its goodput with and without a flood, and the time of
# a new session. Root. QUICK=1: one round.
#
# For each flood of tests/netns/floods.sh, goodput without and with the flood is measured in turns. The ratio is that of the
# medians. Then edge A is restarted while the flood goes on.
. "$(dirname "$0")/../tests/netns/lab.sh"
. "$(dirname "$0")/../tests/netns/floods.sh"
. "$(dirname "$0")/bench.sh"
ROUNDS=${ROUNDS:-${QUICK:+1}}
ROUNDS=${ROUNDS:-3}
SECS=${SECS:-2}

median() {
	sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'
}

goodput() {
	LAB_PATIENCE=20 lab_rcperf --size 65536 --depth 16 --secs "$SECS" || lab_die "contents, order or count are wrong"
	lab_goodput_gbps
}

session_is_new() { # before
	[ "$(lab_status b '.links[0].peer.sessions')" -gt "$1" ] && lab_link_is_up
}

edge_a_answers() {
	[ "$(lab_status a '.links[0].name')" = link ]
}

session_ms() {
	local before ms
	before=$(lab_status b '.links[0].peer.sessions')
	lab_edge_stop a
	lab_edge_start a
	lab_wait 5 edge_a_answers
	ms=$(date +%s%3N)
	lab_wait 10 session_is_new "$before" || { echo 10000; return; }
	echo $(($(date +%s%3N) - ms))
}

beside() { # user|box what name
	local round
	: >"$LAB_DIR/quiet"
	: >"$LAB_DIR/loud"
	for ((round = 0; round < ROUNDS; round++)); do
		goodput >>"$LAB_DIR/quiet"
		flood_start "$1" "$2" || lab_die "no flood"
		goodput >>"$LAB_DIR/loud"
		[ $((round + 1)) = "$ROUNDS" ] || flood_stop
	done
	session_ms >"$LAB_DIR/session" # no command substitution: this shell must know the edge's new process
	flood_stop
	verdict "goodput while $3 / without" \
		"$(awk -v a="$(median <"$LAB_DIR/loud")" -v b="$(median <"$LAB_DIR/quiet")" 'BEGIN { printf "%.3f", a / b }')" '>=' 0.95
	verdict "new session while $3, ms" "$(<"$LAB_DIR/session")" '<=' 5000
}

lab_up
lab_line --rate "$LAB_LINE_RATE" --km 30
lab_server "$B_HOST"
LAB_RATE=100M # far below the machine's capacity, so that the processor time of the flood's senders does not slow the link down
lab_edges
lab_link_up || exit
flood_scripts || lab_die "no floods"
say_if_busy
echo "goodput of a link at $LAB_RATE beside floods: medians of $ROUNDS rounds of $SECS s, with and without a flood in turns;"
echo "a flood is 1,000 connections, hellos or SYNs and 5,000 datagrams a second"
for flood in "${FLOODS[@]}"; do
	# shellcheck disable=SC2086 # two words
	beside ${flood%|*} "${flood#*|}"
done
