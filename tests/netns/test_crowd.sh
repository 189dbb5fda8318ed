#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Many queue pairs over one line: packets that hosts send for each delivered packet, with edges and without. The hosts ignore
# CNPs, and have 256 KiB outstanding on each queue pair. The line's rate is the limit. Ratios are printed and not checked, as a
# busy machine changes them.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

KM=300

ratios() {
	NOTE="$(lab_sent_per_delivered) packets sent for each delivered, $(lab_result '.goodput_gbps * 1000 | round' | tail -1) Mbit/s"
}

# A queue pair that runs out of retries is reported but is no failure: hosts, edges and line share two processors, and packets
# are lost on their way to an edge. Wrong bytes or a wrong order are failures, see check.sh.
crowd() { # queue pairs, rcperf-options...
	if LAB_PATIENCE=300 lab_rcperf --secs "${FULL:+1}5" --depth 4 --size 65536 --qps "$@"; then
		ratios
	else
		NOTE=$(lab_result .failure)
		! check_wrong_data && grep -q 'retries exhausted' <<<"$NOTE" || why "contents, order or count are wrong: $NOTE"
	fi
}

direct() { # as crowd
	lab_edges_stop
	crowd "$@"
}

serves() { # log and status have the number of queue pairs that the buffer serves
	local once turns
	once=$(lab_status a '.links[0].buffer_plan.busy_qps_at_once')
	turns=$(lab_status a '.links[0].buffer_plan.busy_qps_in_turns')
	NOTE="$once queue pairs at once, $turns in turns"
	holds "$once > 0 && $turns >= $once" || why "status: $NOTE" || return
	lab_client a status | grep -q "serves $once busy queue pairs at once, $turns in turns" || why "not in the text" || return
	lab_wait 5 grep -q "serves $once busy queue pairs at once, and $turns in turns" "$LAB_DIR/a/log" || why "not in the log"
}

# A buffer of 2.5 bandwidth-delay products: the hosts are held off all the time, and the doctor says so.
full_buffer() {
	lab_edges_stop
	LAB_BUFFER=20MiB lab_relink 10000 || return
	lab_load --depth 16 --size 65536 --qps 4 || why "no traffic" || return
	lab_wait 8 doctor_says_full || why "the doctor says nothing of $NOTE"
	lab_load_end INT
	[ -z "$WHY" ]
}

doctor_says_full() {
	NOTE=$(lab_status a '.links[0].buffer.from_lan | "\(.used_bytes) of \(.capacity_bytes) bytes"')
	lab_client a doctor >"$LAB_DIR/doctor"
	grep -q 'the buffer outward is' "$LAB_DIR/doctor"
}

lab_up
lab_line --rate $LAB_LINE_RATE --max-delay 150ms
lab_server $B_HOST
check "the link comes up" lab_relink $KM
check "how many queue pairs the buffer serves" serves
for qps in 100 200; do
	check "near: $qps QPs" crowd $qps
	check "near: $qps QPs that repeat as ConnectX does" crowd $qps --adaptive-retrans
done
check "a buffer that is too small is called full" full_buffer
check "direct: 100 QPs" direct 100
check "direct: 200 QPs" direct 200
check_end
