#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The daemon measures the length of the line, notices changes, and reports when its link file disagrees.
#
# The measured distance contains the delay of the machines: a floor, shown by status and measured here at 0 km.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

# A busy machine adds delay and an idle link has few packets: the test sends many and takes the minimum.
LAB_EXTRA=Tuning.Keepalive=10ms

distance() { # field
	lab_status a ".links[0].distance.$1"
}

floor_m=0

is_measured() { # km: within 2 % above the floor
	local m
	m=$(distance measured_m)
	holds "$m >= 1000 * $1 && $m - $floor_m <= 1020 * $1"
}

floor_is_small() {
	holds "$(distance measured_m) > 0 && $(distance measured_m) * 10 < $(distance floor_ns)"
}

floor_of_the_machines() {
	lab_line_set 0
	lab_edges
	lab_link_up || return
	sleep 12
	lab_wait 10 floor_is_small
	floor_m=$(distance measured_m)
	NOTE="the machines and the line emulator look like $floor_m m; $(distance floor_ns) ns are allowed for"
	holds "$floor_m > 0 && $floor_m * 10 < $(distance floor_ns)" || why "$NOTE"
}

measures() { # km
	lab_line_set "$1"
	lab_wait 20 is_measured "$1" || why "measured $(distance measured_m) m with $1 km and a floor of $floor_m m" || return
	NOTE="$(distance measured_m) m, of which the floor is $floor_m m"
}

# Two to five seconds after the change, if the machine runs the daemon every second (test_distance.c tests that).
step_from_300_to_340() {
	local start=$EPOCHREALTIME steps
	lab_line_set 300
	lab_wait 20 is_measured 300 || why "300 km are not measured first" || return
	steps=$(distance steps)
	start=$EPOCHREALTIME
	lab_line_set 340
	lab_wait 20 noticed "$steps" || why "not noticed: $(distance measured_m) m" || return
	NOTE="noticed after $(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $start }") s: $(distance measured_m) m"
	grep -q 'the path has become longer' "$LAB_DIR/a/log" || why "the log does not say it"
}

noticed() { # steps before
	holds "$(distance steps) > $1 && $(distance measured_m) >= 340000"
}

recomputed() { # the status has the same plan as the library for this round trip
	local rtt plan want
	rtt=$(distance least_rtt_ns)
	plan=$(lab_status a '.links[0].buffer_plan.wanted_bytes')
	want=$("$LAB_BIN/longreach" headroom --json --rtt "${rtt}ns" --rate "$LAB_RATE" | jq .plan.deep_buffer_bytes)
	NOTE="a direction wants $plan bytes"
	# the round trip may be measured again between the two queries
	holds "$plan > 0.97 * $want && $plan < 1.03 * $want" || why "$NOTE, longreach headroom says $want"
}

in_force_is() { # km: and up to 25 km more, which the machines add
	holds "$(distance in_force_m) >= 1000 * $1 && $(distance in_force_m) < 1000 * $1 + 25000"
}

differs() { # expected
	[ "$(distance differs)" = "$1" ]
}

configured() { # km-in-the-file true|false in-force-km
	lab_edges_stop
	: >"$LAB_DIR/a/log"
	LAB_EXTRA_A=Link.Distance=${1}km
	lab_edges
	lab_link_up || return
	lab_wait 10 measurement_said || why "not measured" || return
	lab_wait 10 differs "$2" || why "differs is $(distance differs) with ${1}km in the file" || return
	lab_wait 10 in_force_is "$3" || why "reckons with $(distance in_force_m) m" || return
	NOTE="reckons with $(distance in_force_m) m"
	if [ "$2" = true ]; then
		grep -q "Distance=${1}km, but" "$LAB_DIR/a/log" || why "the log does not say it"
	else
		! grep -q 'Distance=' "$LAB_DIR/a/log" || why "the log complains: $(grep -m1 Distance= "$LAB_DIR/a/log")"
	fi
}

measurement_said() {
	grep -q 'round trip .* of fibre' "$LAB_DIR/a/log"
}

# A running buffer is not resized: status shows both sizes, and the log names the Size= for a restart.
too_small() {
	local size
	lab_edges_stop
	: >"$LAB_DIR/a/log"
	LAB_EXTRA_A= LAB_RATE=100G LAB_BUFFER=64MiB
	lab_edges
	lab_link_up || return
	lab_wait 10 measurement_said || why "not measured" || return
	lab_client a status >"$LAB_DIR/status.txt"
	grep -q '^  plan .*TOO SMALL; Size=auto would be' "$LAB_DIR/status.txt" ||
		why "$(grep '^  plan' "$LAB_DIR/status.txt")" || return
	size=$(sed -n 's/.*too little to fill the line; set \[Buffer\] Size=\([0-9]*\)MiB and restart the link.*/\1/p' \
		"$LAB_DIR/a/log" | head -1)
	NOTE="64 MiB at 100G: Size=${size}MiB is asked for"
	# 8 bandwidth-delay products of 3 ms are 286 MiB
	holds "${size:-0} >= 286 && ${size:-0} < 400" || why "$NOTE"
}

says_it_in_words() {
	lab_client a status >"$LAB_DIR/status.txt" || why "no status" || return
	NOTE=$(grep -m1 '^  distance' "$LAB_DIR/status.txt" | sed 's/^ *//')
	grep -q 'DIFFER' <<<"$NOTE" && grep -q '^  plan' "$LAB_DIR/status.txt" || why "$NOTE"
}

no_dcb_here() {
	local status
	lab_in ea "$LAB_BIN/longreach" headroom apply --dev lan0 --length 40m --rate 100G >"$LAB_DIR/apply.out" 2>&1
	status=$?
	NOTE=$(head -1 "$LAB_DIR/apply.out" | cut -c1-80)
	[ $status = 1 ] && grep -q 'has no DCB' "$LAB_DIR/apply.out" || why "status $status: $NOTE"
}

lab_up
lab_line --rate $LAB_LINE_RATE
check "distance: the machines' floor" floor_of_the_machines
for km in 100 300 1000; do
	check "distance: $km km" measures $km
done
check "distance: a step from 300 to 340 km is noticed" step_from_300_to_340
check "distance: the buffer's plan follows" recomputed
lab_line_set 300
check "distance: a file that agrees" configured 300 false 300
check "distance: a file that says too little: the larger rules" configured 100 true 300
check "distance: status says so in words" says_it_in_words
check "distance: a file that says too much: the larger rules" configured 1000 true 1000
check "distance: a buffer too small for it says so" too_small
check "headroom apply: a device without DCB is refused" no_dcb_here
check_end
