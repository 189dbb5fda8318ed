#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The line is cut under load and mended: the hosts' QPs live on and nothing is lost.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

note_verified() {
	NOTE=$(lab_result '"\(.messages) messages, \(.verified_bytes / 1e6 | round) MB verified, " +
		"host retries \(.here.retries)"')
}

CUT_S=${FULL:+10}
CUT_S=${CUT_S:-3}

cut_under_load() { # mode
	local status
	LAB_MODE=$1
	lab_relink 300 || return
	lab_load --depth 32 --qps 2 || why "no traffic" || return
	lab_line_ctl cut
	sleep "$CUT_S"
	lab_line_ctl uncut
	lab_load_moves || why "no traffic after the cut"
	lab_load_end
	status=$?
	[ -z "$WHY" ] || return
	[ $status = 0 ] || why "the hosts did not come through (rcperf status $status): $(lab_result .failure)" || return
	note_verified
	lab_edge_alive a && lab_edge_alive b || why "an edge died"
}

# Early-acknowledged packets are in the buffer of the killed edge; the restarted daemon delivers them.
killed_under_load() { # edge
	local status
	LAB_MODE=near
	lab_relink 300 || return
	# shellcheck disable=SC2086 # several words
	lab_load --depth 32 --qps 2 $LAB_PATIENT || why "no traffic" || return
	{ lab_edge_stop "$1" KILL; } 2>/dev/null
	lab_edge_start "$1"
	lab_link_up && lab_load_moves || why "no traffic after the kill"
	lab_load_end
	status=$?
	[ -z "$WHY" ] || return
	[ $status = 0 ] || why "the hosts did not come through (rcperf status $status): $(lab_result .failure)" || return
	note_verified
}

lab_up
lab_line --rate $LAB_LINE_RATE
lab_server $B_HOST
check "near: line cut for $CUT_S s under WRITE load" cut_under_load near
[ -z "${FULL:-}" ] || check "host: line cut for $CUT_S s under WRITE load" cut_under_load host
check "near: the near edge killed under load and started again" killed_under_load a
check "near: the far edge killed under load and started again" killed_under_load b
check_end
