#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_flood.sh - cost of foreign datagrams at an edge's UDP port, beside a process that discards the same datagrams. Root.
#
# Edge A's machine sends at a fixed rate, to a discarding socket on the machine of edge B, then to edge B's port on a sealed
# link. The two runs form a pair, because other load changes the number of datagrams per wakeup. The output shows medians of
# the processor time per received datagram and of the ratios, the growth of memory over all datagrams of a kind, and the
# link's own goodput meanwhile.
. "$(dirname "$0")/../tests/netns/lab.sh"
RATE=${RATE:-50000}
SECS=${SECS:-3}
ROUNDS=${ROUNDS:-${QUICK:+1}}
ROUNDS=${ROUNDS:-3}
PORT=4790
FLOOD=$LAB_BUILD/bench/bench_flood

cpu_ticks() { # pid
	awk '{ print $14 + $15 }' "/proc/$1/stat"
}

resident_kib() { # pid
	awk '/^VmRSS/ { print $2 }' "/proc/$1/status"
}

# Waits until the edge's memory stays the same: an edge allocates in the background, and a little more with the first queries.
memory_settles() { # pid
	local before now=0 tries=0
	until [ "$now" = "${before:-}" ] || [ $((tries++)) = 20 ]; do
		before=$now
		came_to_b >/dev/null
		sleep 1
		now=$(resident_kib "$1")
	done
}

came_to_b() {
	lab_status b '.links[0] | .counters.wan_rx_datagrams +
		([.drops | to_entries[] | select(.key | startswith("wan_")) | .value] | add)'
}

idle_ticks() { # pid: ticks during the time of a flood
	local before
	before=$(cpu_ticks "$1")
	sleep "$SECS"
	echo $(($(cpu_ticks "$1") - before))
}

per_datagram() { # ticks datagrams: microseconds
	awk -v t="$1" -v n="$2" 'BEGIN { printf "%.2f", t * 10000 / n }'
}

median() {
	sort -n | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'
}

flood() { # port source kind
	lab_in ea "$FLOOD" send "$2" 192.0.2.2 "$1" "$RATE" "$SECS" "$3"
}

discarded() { # source kind: sets SENT, CAME, US
	local t pid
	ip netns exec "$LAB_ID-eb" "$FLOOD" discard 192.0.2.2 $((PORT + 1)) >"$LAB_DIR/came" &
	pid=$! # ip netns exec becomes it
	sleep 0.3
	t=$(cpu_ticks "$pid")
	SENT=$(flood $((PORT + 1)) "$1" "$2")
	t=$(($(cpu_ticks "$pid") - t))
	kill "$pid"
	wait "$pid"
	CAME=$(<"$LAB_DIR/came")
	US=$(per_datagram "$t" "$CAME")
}

taken_by_edge() { # source kind: sets SENT, CAME, US
	local t
	CAME=$(came_to_b)
	t=$(cpu_ticks "$EDGE")
	SENT=$(flood $PORT "$1" "$2")
	t=$(($(cpu_ticks "$EDGE") - t - IDLE))
	sleep 0.3
	CAME=$(($(came_to_b) - CAME))
	US=$(per_datagram "$t" "$CAME")
}

pairs() { # label source kind
	local rss round discard log=$LAB_DIR/pairs
	: >"$log"
	rss=$(resident_kib "$EDGE")
	for ((round = 0; round < ROUNDS; round++)); do
		discarded "$2" "$3"
		discard=$US
		taken_by_edge "$2" "$3"
		awk -v a="$US" -v b="$discard" 'BEGIN { print b, a, a / b }' >>"$log"
	done
	rss=$(($(resident_kib "$EDGE") - rss))
	printf '%-34s %9d of %9d %8s us   beside %s us   %.2f x   %+d KiB of memory\n' "$1" "$CAME" "$SENT" \
		"$(cut -d' ' -f2 "$log" | median)" "$(cut -d' ' -f1 "$log" | median)" "$(cut -d' ' -f3 "$log" | median)" "$rss"
}

goodput() {
	lab_rcperf --op write --size 65536 --depth 32 --secs "$1" || lab_die "contents, order or count are wrong"
	lab_goodput_gbps | jq '. * 1000 | round / 1000'
}

make -s -C "$LAB_ROOT" O="$LAB_BUILD" "$FLOOD" || exit
lab_up
lab_in ea ip addr add 192.0.2.9/24 dev wan0
lab_line --rate 2G --queue 4M
lab_server "$B_HOST"
LAB_RATE=400M lab_edges
lab_link_up
EDGE=$(lab_edge_child b)
memory_settles "$EDGE"
IDLE=$(idle_ticks "$EDGE")
echo "garbage, $RATE datagrams/s of 1400 bytes for $SECS s, $ROUNDS times; datagrams taken of those sent (the last time),"
echo "processor time of each, beside a process that discards the same datagrams"
pairs "edge: another host's noise" 192.0.2.9 noise
pairs "edge: noise in the peer's name" 192.0.2.1 noise
pairs "edge: headers in the peer's name" 192.0.2.1 header
quiet=$(goodput 3)
flood $PORT 192.0.2.1 header >/dev/null &
sleep 0.5
loud=$(goodput 3)
wait $!
echo "goodput of the link at 400M: $quiet Gbit/s, and $loud Gbit/s beside the last flood, $(
	awk -v a="$loud" -v b="$quiet" 'BEGIN { printf "%.3f", a / b }') of it"
