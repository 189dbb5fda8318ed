#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_wan.sh - sealed longreach beside what one would use instead, on one emulated line: TCP (iperf3, CUBIC and BBR, one
# stream and eight) and QUIC (Debian's ngtcp2, CUBIC and BBR). Root.
#
#   bench/bench_wan.sh [km:loss ...]       loss in per cent; default: four points. FULL=1: 0 to 3000 km, 0 to 1 %
#
# Goodput in Mbit/s: what arrived, without the first second. Latency: messages of 64 KiB at a quarter of the line's rate on
# one QP or one TCP connection, from the sender's call until it knows that the message is there (longreach: AckMode=host),
# while nothing else is on the line. The line carries LINE, which must be no more than half of what the emulator can do here; segmentation
# offloads are off, so that the line loses packets of wire size.
. "$(dirname "$0")/../tests/netns/lab.sh"
LINE_MBPS=${LINE_MBPS:-400}
SECS=${SECS:-4}
MSG=$((64 << 10))
DEPTH=64
WEB_BYTES=$((LINE_MBPS * 1000000 / 8 * (SECS + 2)))

default_points() {
	local km loss
	[ -n "${FULL:-}" ] || { echo 0:0 300:0.1 1000:0 1000:1; return; }
	for km in 0 100 300 1000 3000; do
		for loss in 0 0.01 0.1 1; do
			echo $km:$loss
		done
	done
}

need() {
	local missing=
	for p in iperf3 gtlsclient gtlsserver openssl jq; do
		command -v $p >/dev/null || missing="$missing $p"
	done
	[ -z "$missing" ] || lab_die "missing:$missing (apt-get install iperf3 ngtcp2-client ngtcp2-server openssl jq)"
}

# Half of the emulator's top rate must be at least the line's.
emulator_is_fast_enough() {
	local top
	"$LAB_TOOLS/wanline" --selftest 1 >"$LAB_DIR/selftest" 2>&1
	top=$(grep -oE 'top rate[^0-9]*[0-9.]+' "$LAB_DIR/selftest" | grep -oE '[0-9.]+$')
	echo "line: $LINE_MBPS Mbit/s; the emulator's own limit here: ${top:-?} Gbit/s"
}

serve() {
	ip netns exec "$LAB_ID-eb" iperf3 -s >"$LAB_DIR/iperf3.log" 2>&1 &
	SERVERS=$!
	ip netns exec "$LAB_ID-eb" "$LAB_BUILD/bench/bench_msg" serve 192.0.2.2 5300 &
	SERVERS="$SERVERS $!"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$LAB_DIR/web.key" -out "$LAB_DIR/web.crt" \
		-days 2 -subj /CN=192.0.2.1 2>/dev/null || lab_die "openssl failed"
	mkdir -p "$LAB_SHM/web"
	truncate -s "$WEB_BYTES" "$LAB_SHM/web/data"
	# QUIC's server is the one that sends: it stands at site A.
	ip netns exec "$LAB_ID-ea" gtlsserver -q --no-quic-dump --no-http-dump -d "$LAB_SHM/web" 192.0.2.1 4433 \
		"$LAB_DIR/web.key" "$LAB_DIR/web.crt" >"$LAB_DIR/web.log" 2>&1 &
	WEB=$!
	lab_wait 3 lab_listens eb 5201
}

stop_serving() {
	kill $SERVERS "$WEB" 2>/dev/null
	wait $SERVERS "$WEB" 2>/dev/null
	rm -rf "$LAB_SHM/web"
}

tcp() { # congestion control, streams
	lab_in ea timeout $((SECS + 10)) iperf3 -c 192.0.2.2 -C "$1" -P "$2" -t $((SECS - 1)) -O 1 -J 2>/dev/null |
		jq -r '.end.sum_received.bits_per_second / 1e6 | round' 2>/dev/null
}

quic() {
	local one
	rm -rf "$LAB_SHM/got"
	mkdir -p "$LAB_SHM/got"
	lab_in eb timeout "$SECS" gtlsclient -q --no-quic-dump --no-http-dump --exit-on-all-streams-close \
		--max-data=256M --max-stream-data-bidi-local=256M --max-window=512M --max-stream-window=512M \
		--download="$LAB_SHM/got" 192.0.2.1 4433 https://192.0.2.1:4433/data >/dev/null 2>&1 &
	sleep 1
	one=$(stat -c %s "$LAB_SHM/got/data" 2>/dev/null || echo 0)
	wait $!
	awk -v a="$one" -v b="$(stat -c %s "$LAB_SHM/got/data" 2>/dev/null || echo 0)" -v s=$((SECS - 1)) \
		'BEGIN { printf "%.0f\n", (b - a) * 8 / s / 1e6 }'
	rm -rf "$LAB_SHM/got"
}

edges() { # mode
	LAB_MODE=$1 LAB_RATE=$((LINE_MBPS * 99 / 100))M lab_edges
	lab_link_up || exit
}

longreach() {
	edges near
	lab_rcperf --op write --size 65536 --depth 64 --qps 4 --secs "$SECS" --warmup 0.25 || lab_die "longreach: $(tail -1 "$LAB_DIR/rcperf.err")"
	lab_result '.there.executed_gbps * 1000 | round'
	lab_edges_stop
}

goodput() { # km loss
	local lr c1 c8 b1 b8 q
	c1=$(tcp cubic 1) c8=$(tcp cubic 8) b1=$(tcp bbr 1) b8=$(tcp bbr 8) q=$(quic) lr=$(longreach)
	echo "$1 $2 ${lr:-0} ${c1:-0} ${c8:-0} ${b1:-0} ${b8:-0} ${q:-0}" | awk '{
		best = 0
		for (i = 4; i <= 8; i++) if ($i > best) best = $i
		printf "%5d %6s %10d %8d %8d %8d %8d %8d %11.2f x %9.1f x\n", $1, $2, $3, $4, $5, $6, $7, $8, best ? $3 / best : 0, $4 ? $3 / $4 : 0 }'
}

latency() { # km loss
	local lr c b
	c=$(lab_in ea "$LAB_BUILD/bench/bench_msg" ask 192.0.2.2 5300 $MSG $DEPTH $((LINE_MBPS / 4)) "$SECS" cubic)
	b=$(lab_in ea "$LAB_BUILD/bench/bench_msg" ask 192.0.2.2 5300 $MSG $DEPTH $((LINE_MBPS / 4)) "$SECS" bbr)
	edges host
	lab_rcperf --op write --size $MSG --depth $DEPTH --rate "$(awk -v m="$LINE_MBPS" 'BEGIN { print m / 4000 }')" --secs "$SECS" --warmup 0 || lab_die "longreach: $(tail -1 "$LAB_DIR/rcperf.err")"
	lr=$(lab_result '.here.latency_us | "\(.n) \(.p50 | round) \(.p99 | round) \(.p99_9 | round)"')
	lab_edges_stop
	echo "$1 $2 $lr $c $b" | awk '{
		printf "%5d %6s   %7d %7d %7d   %7d %7d %7d   %7d %7d %7d   %5.2f x at p99.9\n", $1, $2, $4, $5, $6, $8, $9, $10, $12, $13,
			$14, $10 < $14 ? $6 / $10 : $6 / $14 }'
}

at_each_point() { # function
	local p
	for p in "${POINTS[@]}"; do
		lab_line_set "${p%%:*}" "loss=${p#*:}%"
		"$1" "${p%%:*}" "${p#*:}"
	done
}

need
make -s -C "$LAB_ROOT" O="$LAB_BUILD" "$LAB_BUILD/bench/bench_msg" || exit
POINTS=("$@")
[ $# -gt 0 ] || mapfile -t POINTS < <(default_points | tr ' ' '\n')
lab_up
for ns in ea eb; do
	lab_sysctl $ns net.ipv4.tcp_rmem='4096 131072 67108864'
	lab_sysctl $ns net.ipv4.tcp_wmem='4096 131072 67108864'
done
emulator_is_fast_enough
lab_line --rate "${LINE_MBPS}M" --queue 1M
lab_server "$B_HOST"
serve
printf '\ngoodput, Mbit/s\n%5s %6s %10s %8s %8s %8s %8s %8s %13s %11s\n' km 'loss%' longreach cubic cubic-8 bbr bbr-8 quic \
	'of the best' 'of cubic'
at_each_point goodput
printf '\nlatency of a message of 64 KiB, microseconds: p50, p99, p99.9\n%5s %6s   %-23s   %-23s   %-23s   longreach / best\n' km 'loss%' \
	longreach 'TCP CUBIC' 'TCP BBR'
at_each_point latency
stop_serving
