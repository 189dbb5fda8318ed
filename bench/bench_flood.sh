#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_flood.sh - what garbage at the UDP port costs an edge, beside a process that throws the same away. Root.
#
# Edge A's machine sends at a fixed rate to edge B's port on a sealed link, then to a discarding socket on the machine
# of edge B. Processor time per datagram that came, memory before and after, and what the link itself carries meanwhile.
. "$(dirname "$0")/../tests/netns/lab.sh"
RATE=${RATE:-50000}
SECS=${SECS:-5}
PORT=4790
FLOOD=$LAB_BUILD/bench/bench_flood

cpu_ticks() { # pid
	awk '{ print $14 + $15 }' "/proc/$1/stat"
}

resident_kib() { # pid
	awk '/^VmRSS/ { print $2 }' "/proc/$1/status"
}

came_to_b() {
	lab_status b '.links[0].counters.wan_rx_datagrams + ([.links[0].drops | to_entries[] | select(.key | startswith("wan_")) | .value] | add)'
}

idle_ticks() { # pid: in as many seconds as a flood lasts
	local before
	before=$(cpu_ticks "$1")
	sleep "$SECS"
	echo $(($(cpu_ticks "$1") - before))
}

per_datagram() { # ticks datagrams: microseconds
	awk -v t="$1" -v n="$2" 'BEGIN { printf "%.2f", t * 10000 / n }'
}

flood() { # port source kind
	lab_in ea "$FLOOD" send "$2" 192.0.2.2 "$1" "$RATE" "$SECS" "$3"
}

discarded() { # source
	local sent came t pid
	ip netns exec "$LAB_ID-eb" "$FLOOD" discard 192.0.2.2 $((PORT + 1)) >"$LAB_DIR/came" &
	pid=$! # ip netns exec becomes it
	sleep 0.3
	t=$(cpu_ticks "$pid")
	sent=$(flood $((PORT + 1)) "$1" noise)
	t=$(($(cpu_ticks "$pid") - t))
	kill "$pid"
	wait "$pid"
	came=$(<"$LAB_DIR/came")
	DISCARD=$(per_datagram "$t" "$came")
	printf '%-34s %9d of %9d %8s us\n' "a discarding process" "$came" "$sent" "$DISCARD"
}

edge() { # label source kind
	local pid=${LAB_EDGE_PID[b]} sent came t rss idle us
	idle=$(idle_ticks "$pid")
	rss=$(resident_kib "$pid")
	came=$(came_to_b)
	t=$(cpu_ticks "$pid")
	sent=$(flood $PORT "$2" "$3")
	t=$(($(cpu_ticks "$pid") - t - idle))
	sleep 0.3
	came=$(($(came_to_b) - came))
	rss=$(($(resident_kib "$pid") - rss))
	us=$(per_datagram "$t" "$came")
	printf '%-34s %9d of %9d %8s us   %s x   %+d KiB of memory\n' "$1" "$came" "$sent" "$us" \
		"$(awk -v a="$us" -v b="$DISCARD" 'BEGIN { printf "%.2f", a / b }')" "$rss"
}

goodput() {
	lab_rcperf --op write --size 65536 --depth 32 --secs "$1" || lab_die "contents, order or count are wrong"
	tail -1 "$LAB_DIR/client.json" | jq -r '[.goodput_gbps, .there.executed_gbps] | map(select(. > 0)) | min * 1000 | round / 1000'
}

make -s -C "$LAB_ROOT" O="$LAB_BUILD" "$FLOOD" || exit
lab_up
lab_in ea ip addr add 192.0.2.9/24 dev wan0
lab_line --rate 2G --queue 4M
lab_server "$B_HOST"
LAB_RATE=400M lab_edges
lab_link_up
echo "garbage, $RATE datagrams/s of 1400 bytes for $SECS s; datagrams taken of those sent, processor time each"
flood $PORT 192.0.2.9 noise >/dev/null # receive buffers have their memory from the first burst on
discarded 192.0.2.1
edge "edge: another host's noise" 192.0.2.9 noise
edge "edge: noise in the peer's name" 192.0.2.1 noise
edge "edge: headers in the peer's name" 192.0.2.1 header
quiet=$(goodput 3)
flood $PORT 192.0.2.1 header >/dev/null &
sleep 0.5
loud=$(goodput 3)
wait $!
echo "goodput of the link at 400M: $quiet Gbit/s, and $loud Gbit/s while the last one goes on"
