#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_crowd.sh - many queue pairs over one line: what is delivered, what hosts send for it and who dies, with edges (mode near)
# and directly. Root.
#
#   bench/bench_crowd.sh [--secs N] [--km KM] [--nic GBIT] [--out DIR] [QPS ...]
#
# Default: 10, 100, 200 and 1,000 queue pairs over 300 km, 15 s each, about 10 minutes; with QUICK=1 only 100, for 5 s. Each queue
# pair has four messages of 64 KiB outstanding. Hosts ignore CNPs or obey them (DCQCN), and repeat as rxe does (67 ms) or as
# ConnectX (2, 4, 8, 16 ms). DIR (default bench-out) gets crowd.csv.
#
# Hosts, edges and line share this machine's processors. A NIC here has GBIT (default 2, four times the line): hosts that send a
# thousand windows as fast as the processor can copy them leave the edge no time to take them, and its receive ring runs over.
# The rows count the packets that were lost so (`ring`).
. "$(dirname "$0")/../tests/netns/lab.sh"
. "$(dirname "$0")/bench.sh"

SECS=15 KM=300 NIC_GBIT=2 OUT=bench-out QPS=()

options() {
	[ -z "${QUICK:-}" ] || SECS=5
	while [ $# -gt 0 ]; do
		case $1 in
		--secs) SECS=$2 ;;
		--km) KM=$2 ;;
		--nic) NIC_GBIT=$2 ;;
		--out) OUT=$2 ;;
		[0-9]*) QPS+=("$1") && shift && continue ;;
		*)
			sed -n '6s/^# *//p' "$0" >&2
			exit 2
			;;
		esac
		shift 2 || exit 2
	done
	[ ${#QPS[@]} -gt 0 ] || { [ -n "${QUICK:-}" ] && QPS=(100) || QPS=(10 100 200 1000); }
}

RING=0         # packets that edge A's receive ring has lost so far
declare -A GOT # "way qps cnps retries": Mbit/s, packets sent for each delivered, alive

measure() { # near|direct qps deaf|obeys rxe|cx
	local options=(--rate "$NIC_GBIT") mbps packets ring=0 alive=yes
	[ "$3" = deaf ] || options+=(--dcqcn "$NIC_GBIT")
	[ "$4" = rxe ] || options+=(--adaptive-retrans)
	if ! LAB_PATIENCE=$((SECS + 90)) lab_rcperf --secs "$SECS" --depth 4 --size 65536 --qps "$2" "${options[@]}"; then
		alive=no
		grep -q 'retries exhausted' <<<"$(lab_result .failure)" || lab_die "$*: $(lab_result '.failure, .peer_failure')"
	fi
	mbps=$(lab_goodput_gbps | awk '{ print $1 * 1000 }')
	packets=$(lab_sent_per_delivered)
	[ "$1" = direct ] || ring=$(lab_status a '.links[0].drops.lan_kernel // 0')
	GOT["$*"]="$mbps $packets $alive"
	echo "$1,$2,$3,$4,$mbps,$packets,$((ring - RING)),$alive" >>"$CSV"
	awk -v way="$1" -v qps="$2" -v cnps="$3" -v retries="$4" -v m="$mbps" -v p="$packets" -v r=$((ring - RING)) -v alive="$alive" 'BEGIN {
		printf "%7s %6d  %-6s %-8s %8.0f Mbit/s %8.2f %7d   %s\n", way, qps, cnps, retries, m, p, r,
			alive == "yes" ? "all live" : "A QUEUE PAIR DIED" }'
	RING=$ring
}

of() { # key column
	cut -d' ' -f"$2" <<<"${GOT[$1]}"
}

judge() { # qps
	local cnps retries key direct
	for retries in rxe cx; do
		direct="direct $1 deaf $retries"
		for cnps in deaf obeys; do
			key="near $1 $cnps $retries"
			verdict "$1 QPs, $cnps, $retries: queue pairs that died, 0 or some" "$([ "$(of "$key" 3)" = yes ] && echo 0 || echo 1)" '<=' 0
			verdict "$1 QPs, $cnps, $retries: packets sent for each delivered" "$(of "$key" 2)" '<=' \
				"$([ $cnps = deaf ] && echo 2 || echo 1.1)"
			[ "$(of "$direct" 3)" = yes ] || { no_verdict "$1 QPs, $cnps, $retries: goodput / direct" "directly one died" && continue; }
			verdict "$1 QPs, $cnps, $retries: goodput / direct" \
				"$(awk -v a="$(of "$key" 1)" -v b="$(of "$direct" 1)" 'BEGIN { printf "%.2f", a / b }')" '>=' 0.97
		done
	done
}

options "$@"
mkdir -p "$OUT" || exit
CSV=$OUT/crowd.csv
echo way,qps,cnps,retries,mbit_s,packets_per_delivered,lost_in_ring,alive >"$CSV"
lab_up
lab_line --rate "$LAB_LINE_RATE" --max-delay 150ms
lab_server $B_HOST
lab_line_set "$KM"
echo "line: $LAB_LINE_RATE, $KM km; four messages of 64 KiB on each queue pair; NICs of $NIC_GBIT Gbit/s; $SECS s each"
say_if_busy
printf '%7s %6s  %-6s %-8s %15s %8s %7s\n' way QPs CNPs repeat delivered packets ring
for qps in "${QPS[@]}"; do
	lab_relink "$KM" || lab_die "the link does not come up"
	RING=0
	for retries in rxe cx; do
		for cnps in deaf obeys; do
			measure near "$qps" $cnps $retries
		done
	done
	lab_edges_stop
	RING=0
	for retries in rxe cx; do
		measure direct "$qps" deaf $retries
	done
done
echo
for qps in "${QPS[@]}"; do
	judge "$qps"
done
echo "figures: $CSV"
