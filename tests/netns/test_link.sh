#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# RDMA through two edges in both ack modes, on lines that lose, reorder, double and corrupt packets.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

SAME_QPN_PORT=18600

link() { # mode
	LAB_MODE=$1
	lab_relink 300
}

learned_pairs() {
	across "$@" || return
	[ "$(lab_status a '.links[0].flow_counts.learning')" = 0 ] || why "some flows are still learning"
}

lab_up
lab_line --rate $LAB_LINE_RATE
lab_server $B_HOST
lab_server $B_HOST6 --port 18516
lab_server $B_HOST --port $SAME_QPN_PORT --qpn 17 --psn 0

for mode in near host; do
	check "$mode: the link comes up" link $mode
	check "$mode: WRITE" across -- --secs 0.7 --depth 32
	check "$mode: WRITE, 1 % loss" across loss=1% -- --secs 0.7 --depth 32
	check "$mode: WRITE, losses in bursts of 10" across loss=1% burst=10 -- --secs 0.7 --depth 32
	check "$mode: WRITE, 5 % of the packets 300 us late" across reorder=5%,300us jitter=50us -- --secs 0.7 --depth 32
	check "$mode: WRITE, 2 % of the packets doubled" across dup=2% -- --secs 0.7 --depth 32
	check "$mode: WRITE, 0.5 % of the packets corrupted" across corrupt=0.5% -- --secs 0.7 --depth 32
	check "$mode: SEND" across loss=0.1% -- --op send --iters 2000 --size 10000
	check "$mode: WRITE with immediate" across loss=0.1% -- --op write-imm --iters 2000 --size 10000
	check "$mode: READ" across loss=0.1% -- --op read --iters 300 --size 20000
	check "$mode: FETCH AND ADD" across loss=0.1% -- --op fadd --iters 300
	check "$mode: a mix, 4 QPs, both ways, everything wrong at once" across loss=1% reorder=2%,200us dup=1% corrupt=0.1% \
		-- --op mix --qps 4 --bidir --secs 0.7 --size 20000
	check "$mode: 100 QPs from PSN 0, equal QPNs at both ends" learned_pairs loss=0.1% -- --qps 100 --iters 20 --depth 4 \
		--size 8192 --qpn 17 --psn 0 --port $SAME_QPN_PORT
	check "$mode: QPs set up and down by CM" across loss=0.1% -- --cm --qps 4 --iters 200 --size 8192
	check "$mode: path MTU 1024" across loss=0.1% -- --mtu 1024 --secs 0.7 --depth 32
	LAB_FROM=$A_HOST6 LAB_TO=$B_HOST6
	check "$mode: IPv6" across loss=0.1% -- --port 18516 --secs 0.7 --depth 32
	LAB_FROM= LAB_TO=
done
check_end
