#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_nic.sh - cost of an edge under Engine=packet, under Engine=dpdk, and with WanDevice= as well, beside DPDK's null
# forwarder. Root.
#
# The limits come first, in one process over net_vhost (bench/dpdk/): cycles per stage of a null forwarder, of the engine without
# a core, and of the engine with copies; then of sealed edges. LIMITS=only stops there, and needs no root.
#
# Three systems then run in turns between the same hosts: testpmd's `io` mode as the line, which passes each frame of one
# net_af_packet port unchanged to the other; edges under either engine on the usual line; and edges whose WAN uses devices as well
# ("wan"; WAN=only runs only the two systems that differ in the WAN). Processor time per 4 KiB packet is read from /proc. testpmd
# polls, so that its processor time is the elapsed time: only its throughput is compared. All numbers are medians over the turns.
#
# net_af_packet uses the kernel's packet sockets: the benchmark measures the cost of the engine on top of these sockets, not the
# gain of a NIC's own driver.
#
#   O=build/gcc ROUNDS=3 SECS=5 bench/bench_nic.sh     after `make dpdk dpdk-bench`
. "$(dirname "$0")/../tests/netns/lab.sh"
. "$(dirname "$0")/bench.sh"
SECS=${SECS:-5}
ROUNDS=${ROUNDS:-3}
PACKET=4096
RING=framesz=4288,blocksz=274432,framecnt=256
WAN_RING=framesz=9216,blocksz=36864,framecnt=1024
LAB_DAEMONS=$LAB_BIN
TESTPMD_PID=

[ -e "$LAB_DAEMONS/plugins/longreach-dpdk.so" ] || lab_die "longreach-dpdk.so is not built (make dpdk)"
[ "${WAN:-}" = only ] || [ -x "$LAB_DAEMONS/dpdk/bench_nic_edge" ] || lab_die "bench_nic_edge is not built (make dpdk-bench)"
say_if_busy
if [ "${WAN:-}" != only ]; then
	"$LAB_DAEMONS/dpdk/bench_nic_lend" 2>/dev/null || lab_die "bench_nic_lend fails"
	"$LAB_DAEMONS/dpdk/bench_nic_edge" "$LAB_DAEMONS/plugins" 2>/dev/null || lab_die "bench_nic_edge fails"
fi
[ "${LIMITS:-}" != only ] || exit 0
[ "${WAN:-}" = only ] || [ -x "$(command -v dpdk-testpmd)" ] || lab_die "dpdk-testpmd is not here (Debian: dpdk-dev)"

cpu_ticks() { # pid
	awk '{ print $14 + $15 }' "/proc/$1/stat"
}

traffic() { # what
	lab_rcperf --op write --size 65536 --depth 32 --mtu 4096 --secs "$SECS" || lab_die "$1: $(tail -1 "$LAB_DIR/rcperf.err")"
}

# Prints one line of results: what, Gbit/s, us of processor time per packet of each pid.
measure() { # what pid...
	local what=$1 before=() p packets i=0 line
	shift
	for p; do before+=("$(cpu_ticks "$p")"); done
	traffic "$what"
	packets=$(tail -1 "$LAB_DIR/client.json" | jq -r ".verified_bytes / $PACKET | floor")
	line="$what $(lab_goodput_gbps)"
	for p; do
		line+=" $(awk -v a="${before[$i]}" -v b="$(cpu_ticks "$p")" -v n="$packets" 'BEGIN { printf "%.3f", (b - a) * 10000 / n }')"
		i=$((i + 1))
	done
	echo "$line" | tee -a "$LAB_DIR/results"
}

null_forwarder() {
	lab_line_stop
	ip netns exec "$LAB_ID-line" stdbuf -oL dpdk-testpmd --no-huge -m 256 --no-shconf --no-pci --no-telemetry --lcores 0@0,1@1 \
		"--vdev=net_af_packet0,iface=wa,$RING" "--vdev=net_af_packet1,iface=wb,$RING" -- --forward-mode=io --auto-start \
		--mbuf-size=8448 --total-num-mbufs=4096 --stats-period=1000 </dev/null >"$LAB_DIR/testpmd.log" 2>&1 &
	TESTPMD_PID=$!
	lab_wait 20 grep -q 'RX P=1/Q=0' "$LAB_DIR/testpmd.log" ||
		lab_die "testpmd does not start: $(tail -3 "$LAB_DIR/testpmd.log")"
	lab_wait 5 lab_in ha bash -c "exec 3<>/dev/tcp/$B_HOST/18515" || lab_die "testpmd forwards nothing"
	measure testpmd
	kill "$TESTPMD_PID"
	wait "$TESTPMD_PID" 2>/dev/null
}

edges() { # packet|dpdk|wan
	LAB_EXTRA=
	LAB_BIN=$LAB_DAEMONS
	if [ "$1" != packet ]; then
		mkdir -p "$LAB_DIR/bin"
		printf '#!/bin/sh\nexec %s/longreachd --plugins %s/plugins --eal "--no-huge -m 256" "$@"\n' "$LAB_DAEMONS" \
			"$LAB_DAEMONS" >"$LAB_DIR/bin/longreachd"
		ln -sf "$LAB_DAEMONS/longreach" "$LAB_DIR/bin/longreach"
		chmod 755 "$LAB_DIR/bin/longreachd"
		LAB_BIN=$LAB_DIR/bin
		LAB_EXTRA="Link.Engine=dpdk Link.LanDevice=net_af_packet0,iface=lan0,$RING"
		[ "$1" = dpdk ] || LAB_EXTRA+=" Link.WanDevice=net_af_packet1,iface=wan0,$WAN_RING"
	fi
	lab_line --rate 10G --queue 8M
	lab_edges
	lab_link_up || lab_die "$1: the link does not come up"
	measure "$1" "$(lab_edge_child a)" "$(lab_edge_child b)"
	lab_edges_stop
}

median() { # what column
	awk -v what="$1" -v c="$2" '$1 == what { print $c }' "$LAB_DIR/results" | sort -n |
		awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

lab_up
lab_line --rate 10G --queue 8M
lab_server "$B_HOST"
LAB_MODE=near LAB_RATE=8G LAB_FEC=off
say_if_busy
echo "engine, Gbit/s, us of processor time per packet: near edge, far edge"
for ((round = 0; round < ROUNDS; round++)); do
	if [ "${WAN:-}" != only ]; then
		null_forwarder
		edges packet
	fi
	edges dpdk
	edges wan
done
compare() { # what with what
	awk -v a="$1" -v b="$2" -v r="$(median "$1" 2)" -v s="$(median "$2" 2)" -v rn="$(median "$1" 3)" -v sn="$(median "$2" 3)" \
		-v rf="$(median "$1" 4)" -v sf="$(median "$2" 4)" 'BEGIN {
			printf "%s beside %s: %.2f x of its Gbit/s; processor time per packet, near edge %.2f us, %.2f x; far edge %.2f us, %.2f x\n", \
				b, a, s / r, sn, sn / rn, sf, sf / rf }'
}
if [ "${WAN:-}" != only ]; then
	awk -v null="$(median testpmd 2)" -v p="$(median packet 2)" -v d="$(median dpdk 2)" 'BEGIN {
		printf "testpmd io %.2f Gbit/s; two edges and a line: packet %.2f x, dpdk %.2f x of it\n", null, p / null, d / null }'
	compare packet dpdk
fi
compare dpdk wan
echo "(All processes share the processors of this machine; testpmd and a worker under dpdk poll.)"
