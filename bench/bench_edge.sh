#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_edge.sh - cost of an edge per packet, beside a null forwarder on the same I/O. Root.
#
# The line between the sites is the null forwarder: the line takes each frame from a TPACKET_V2 ring and sends the frame by
# sendmmsg, as an edge's LAN port does, without changing the frame. Both runs use the same hosts on the same line; processor
# time per 4 KiB packet is read from /proc for the line and for both edges in the same run.
. "$(dirname "$0")/../tests/netns/lab.sh"
SECS=${SECS:-5}
PACKET=4096

cpu_ticks() { # pid
	awk '{ print $14 + $15 }' "/proc/$1/stat"
}

measure() { # label pid:name...
	local label=$1 before=() p gbps packets i=0
	shift
	for p; do before+=("$(cpu_ticks "${p%%:*}")"); done
	lab_rcperf --op write --size 65536 --depth 32 --mtu 4096 --secs "$SECS" ||
		lab_die "$label: $(tail -1 "$LAB_DIR/rcperf.err")"
	gbps=$(lab_goodput_gbps)
	packets=$(tail -1 "$LAB_DIR/client.json" | jq -r ".verified_bytes / $PACKET | floor")
	printf '%-12s %6.2f Gbit/s' "$label" "$gbps"
	for p; do
		awk -v a="${before[$i]}" -v b="$(cpu_ticks "${p%%:*}")" -v n="$packets" -v name="${p#*:}" \
			'BEGIN { printf "   %s %.2f us", name, (b - a) * 10000 / n }'
		i=$((i + 1))
	done
	printf ' of processor time per packet\n'
	GBPS=$gbps
}

lab_up
lab_line --rate 10G --queue 8M
lab_server "$B_HOST"
measure forwarder "$LAB_LINE_PID:line"
null=$GBPS
LAB_MODE=near LAB_RATE=8G
lab_edges
lab_link_up
measure longreach "$LAB_LINE_PID:line" "$(lab_edge_child a):near-edge" "$(lab_edge_child b):far-edge"
awk -v a="$null" -v b="$GBPS" 'BEGIN { printf "goodput, longreach / null forwarder: %.2f x\n", b / a }'
echo "(All processes share the processors of this machine, and edges are two more processes.)"
