#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The meaning of a completion: in `host` none comes before the responder's own ACK can have crossed; in `near` the latency does
# not depend on the distance.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

ROUND_TRIP_US_PER_KM=10

latency() { # km writes: p50 of the latencies of one small WRITE at a time, in LATENCY (us)
	lab_line_set "$1"
	lab_rcperf --size 4096 --depth 1 --iters "$2" || why "contents, order or count are wrong" || return
	LATENCY=$(lab_result .here.latency_us.p50)
}

link() { # mode km
	LAB_MODE=$1
	lab_relink "$2"
}

host_waits() { # km
	link host "$1" && latency "$1" 100 || return
	NOTE="half of the completions within $LATENCY us, round trip $(($1 * ROUND_TRIP_US_PER_KM)) us"
	holds "$LATENCY >= $1 * $ROUND_TRIP_US_PER_KM" || why "$NOTE"
}

# Beside what this machine takes at 0 km, a third of the round trip is felt at most.
near_alike() { # km
	local close
	link near 0 && latency 0 300 || return
	close=$LATENCY
	link near "$1" && latency "$1" 300 || return
	NOTE="median at 0 km $close us, at $1 km $LATENCY us"
	holds "$LATENCY < $close * 3 + $1 * $ROUND_TRIP_US_PER_KM / 3" || why "$NOTE"
}

lab_up
lab_line --rate $LAB_LINE_RATE
lab_server $B_HOST
check "host: no completion before a round trip of 300 km" host_waits 300
check "host: no completion before a round trip of 3000 km" host_waits 3000
check "near: completions at LAN distance across 300 km" near_alike 300
check "near: 3000 km are not felt" near_alike 3000
check_end
