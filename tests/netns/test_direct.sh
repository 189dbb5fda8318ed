#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The baseline: RDMA across the line without longreach.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

direct() { # km loss rcperf-options...
	lab_line_set "$1" "loss=$2"
	lab_rcperf --secs 1 "${@:3}" || why "contents, order or count are wrong" || return
	NOTE="$(lab_result .goodput_gbps) Gbit/s"
}

lab_up
lab_line --rate $LAB_LINE_RATE
lab_server $B_HOST
check "direct: WRITE at 0 km" direct 0 0 --size 65536 --depth 16
check "direct: WRITE at 300 km" direct 300 0 --size 65536 --depth 16
check "direct: WRITE at 300 km, 0.1 % loss" direct 300 0.1% --size 65536 --depth 16
check "direct: a mix of operations, 4 QPs, both ways, 0.5 % loss" direct 30 0.5% --op mix --qps 4 --bidir --size 20000
check_end
