#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# soak.sh - random lines, random traffic, real daemons: one line of output per round, with the words that repeat it. Root.
#
#   O=build/gcc tests/netns/soak.sh [rounds] [seed]
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

ROUNDS=${1:-50}
SEED=${2:-$(date +%s)}
RANDOM=$SEED

one_of() {
	local n=$((RANDOM % $# + 1))
	ONE=${!n}
}

# QPNs are paired one after the other; with losses on the LAN the last of 40 pairs comes after a host that gives up after 80 ms
# has given up.
add_habit() {
	[ "$1" = --adaptive-retrans ] && [ "$QPS" -gt 8 ] && return
	TRAFFIC="$TRAFFIC $*"
}

# Bursts are counted in packets: long ones would outlast the retries of a host that sends one packet at a time.
# Sets LINE and TRAFFIC. Not in a subshell: the sequence of draws is the seed's.
draw() {
	LINE= TRAFFIC=
	one_of 0 10 100 300 300 1000
	KM=$ONE
	for ONE in "loss=0.1%" "loss=1%" "loss=3%" "burst=4" "reorder=2%,300us" "dup=2%" "corrupt=0.3%" "jitter=200us"; do
		[ $((RANDOM % 3)) != 0 ] || LINE="$LINE $ONE"
	done
	one_of write send read fadd write-imm mix mix mix
	TRAFFIC="--op $ONE"
	one_of 1 2 8 40
	QPS=$ONE
	TRAFFIC="$TRAFFIC --qps $ONE --iters $((400 / ONE))"
	one_of 64 1000 4096 9000 20000 65536
	TRAFFIC="$TRAFFIC --size $ONE"
	one_of 1 4 32 128
	TRAFFIC="$TRAFFIC --depth $ONE"
	one_of 256 1024 4096 4096
	TRAFFIC="$TRAFFIC --mtu $ONE"
	for ONE in "--bidir" "--cm" "--drop 0.01" "--adaptive-retrans" "--psn 16777200"; do
		[ $((RANDOM % 4)) != 0 ] || add_habit $ONE
	done
	one_of 18515 18515 18601 18602
	TRAFFIC="$TRAFFIC --port $ONE --seed $RANDOM"
}

round() {
	lab_line_set "$KM" $LINE
	lab_rcperf $TRAFFIC || why "contents, order or count are wrong; edges of seed $SEED" || return
	lab_edge_alive a && lab_edge_alive b || why "an edge died"
}

lab_up
lab_line --rate $LAB_LINE_RATE --seed "$SEED"
lab_server $B_HOST
lab_server $B_HOST --port 18601 --drop 0.01
lab_server $B_HOST --port 18602 --recv-depth 8 --freeze-ms 100 --freeze-after 20
echo "SEED=$SEED"
for ((i = 0; i < ROUNDS; i++)); do
	if [ $((i % 10)) = 0 ]; then
		lab_edges_stop
		lab_line_set 300
		one_of near near host
		LAB_MODE=$ONE
		lab_edges
		lab_link_up || exit 1
	fi
	draw
	check "$LAB_MODE $KM km$LINE $TRAFFIC" round
done
check_end
