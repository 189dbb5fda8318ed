#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An idle link writes nothing into the log. FULL=1: for 25 minutes, else for half a minute.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

SECS=30 MOST=1 # on a shared machine one change of the round trip may be logged
[ -z "$FULL" ] || SECS=1500 MOST=5

lines() { cat "$LAB_DIR"/[ab]/log | wc -l; }

begins() {
	lab_edges
	lab_link_up || return
	sleep 15
	NOTE="$(lines) lines of both edges so far"
}

says_nothing() {
	local before n
	before=$(lines)
	sleep $SECS
	n=$(($(lines) - before))
	NOTE="$n lines of both edges in $SECS s; Distance= is that of the line"
	[ $n -le $MOST ] || why "$NOTE: $(tail -qn 3 "$LAB_DIR"/[ab]/log | cut -c1-160 | tr '\n' ';')" || return
	lab_rcperf --size 20000 --iters 20 || why "it carries nothing afterwards"
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 300
lab_server $B_HOST
LAB_EXTRA=Link.Distance=300km
check "a link begins" begins
check "a quiet link logs nothing" says_nothing
check_end
