#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_wan.sh - sealed longreach beside its alternatives, on one emulated line. Root.
#
#   bench/bench_wan.sh [--secs N] [--rounds N] [--line MBPS] [--measure goodput,latency,beside]
#                      [--set SECTION.KEY=VALUE] [--out DIR]
#                      [KM:LOSS ...]
#
# LOSS is in per cent; --set adds a line to the link file, for instance Path.RateControl=auto.
#
# Without points: the grid 0, 100, 300, 1000, 3000 km x 0, 0.01, 0.1, 1 %, in half an hour; with QUICK=1 one point.
# DIR (default bench-out) gets wan.csv, wan-goodput.svg and wan-latency.svg.
#
#   goodput   Mbit/s that arrived, without the beginning. longreach: WRITEs of 64 KiB, four QPs. TCP: iperf3, CUBIC and
#             BBR, one stream and eight. QUIC: Debian's ngtcp2 sends a file, by CUBIC, and by BBR if its server survives.
#   latency   Time from when a message was due until its sender knows that the message has arrived. Messages of 64 KiB take
#             a quarter of the line's rate, without other traffic. longreach: one QP, AckMode=host. TCP: one connection from
#             a host on site A's LAN to a host on site B's LAN, through a user-space forwarder in place of each longreachd,
#             which does not change packets; and (-direct) one between the two machines at the line.
#   beside    The same time for messages of 4 KiB (4 % of the line) while a bulk stream takes half of the line and suffers
#             the same losses. longreach: two QPs of one pair of hosts, so one lane of its transport. TCP, over forwarders:
#             both streams on one connection, as in a tunnel or HTTP/2, where messages behind a lost segment wait for the
#             segment; and on two connections, which wait only for their own losses. (QUIC's streams would also wait only
#             for their own losses on one connection, but the ngtcp2 programs do not time messages.)
#
# Times are measured in rounds, each system once per round, and counted together, without messages that were due while this
# machine stood still (bench_times.c).
#
# The systems differ in some points. For goodput, longreach crosses two more machines (host to edge) on the same processors. The
# rate of longreach is fixed in its link file; with --set Path.RateControl=auto longreach has to find the rate, as TCP has to. TCP
# is not encrypted, longreach and QUIC are. Offloads are off on the way, so that the line loses packets of wire size (MTU 9000).
# The line carries at most half of the emulator's capacity here. The output shows offloads and capacity. For a program that fails
# the output shows "-", with the reason below; the program counts neither as 0 nor as beaten.
. "$(dirname "$0")/../tests/netns/lab.sh"
. "$(dirname "$0")/bench.sh"

SECS=${SECS:-2} ROUNDS=3 LINE_MBPS= MEASURES=goodput,latency,beside SETTINGS= OUT=bench-out POINTS=()
MSG=$((64 << 10)) SMALL=4096 BULK=$((16 << 10))
RING=4M       # 80 ms of the line; creating one of 32 MB takes a processor 100 ms
LINE_MOST=400 # Mbit/s; two processors cannot carry more with a line, four endpoints and two edges
GOODPUTS=(longreach cubic cubic-8 bbr bbr-8 quic-cubic quic-bbr)
LATENCIES=(longreach cubic bbr cubic-direct bbr-direct)
BESIDES=(longreach cubic-shared cubic-apart bbr-shared bbr-apart)

usage() {
	sed -n '5,7s/^# *//p' "$0"
	exit "$1"
}

options() {
	while [ $# -gt 0 ]; do
		case $1 in
		--secs) SECS=$2 ;;
		--rounds) ROUNDS=$2 ;;
		--line) LINE_MBPS=$2 ;;
		--measure) MEASURES=$2 ;;
		--set) SETTINGS="$SETTINGS $2" ;;
		--out) OUT=$2 ;;
		--help) usage 0 ;;
		[0-9]*:[0-9]*) POINTS+=("$1") && shift && continue ;;
		*) usage 2 >&2 ;;
		esac
		shift 2 || usage 2 >&2
	done
	[ ${#POINTS[@]} -gt 0 ] || default_points
}

default_points() {
	local km loss
	if [ -n "${QUICK:-}" ]; then
		POINTS=(1000:1)
		return
	fi
	for loss in 0 0.01 0.1 1; do
		for km in 0 100 300 1000 3000; do
			POINTS+=($km:$loss)
		done
	done
}

need() {
	local p missing=
	for p in iperf3 gtlsclient gtlsserver openssl jq gnuplot; do
		command -v $p >/dev/null || missing="$missing $p"
	done
	[ -z "$missing" ] ||
		lab_die "missing:$missing (apt-get install iperf3 ngtcp2-client ngtcp2-server openssl jq gnuplot-nox)"
	for p in cubic bbr; do
		grep -qw $p /proc/sys/net/ipv4/tcp_available_congestion_control ||
			lab_die "this kernel has no TCP $p: it has $(cat /proc/sys/net/ipv4/tcp_available_congestion_control)"
	done
}

choose_line() {
	local top half
	top=$("$LAB_TOOLS/wanline" --selftest 0.3 2>&1 | awk '/top rate:/ { print $3 * 1000 }')
	half=$(awk -v t="${top:-0}" 'BEGIN { printf "%d", t / 2 }')
	[ "$half" -gt 0 ] || lab_die "the emulator's selftest fails here"
	if [ -z "$LINE_MBPS" ]; then
		LINE_MBPS=$((half < LINE_MOST ? half : LINE_MOST))
	fi
	echo "line: $LINE_MBPS Mbit/s, queue 1 MB; the emulator carries up to $top here$(
		[ "$LINE_MBPS" -le "$half" ] || echo ": LESS THAN TWICE AS MUCH")"
	echo "segmentation offloads: off at edges and hosts; MTU 9000; $SECS s for each figure, times in $ROUNDS rounds${SETTINGS:+;$SETTINGS}"
	say_if_busy
}

# --- runs. Each leaves its figures in RESULT, or the reason for missing figures in WHY ---

RESULT= WHY= NO_LINK=

failed() { # a sentence
	RESULT= WHY=$*
	return 1
}

# Adds a host behind an edge's machine, as lab.sh does, but for TCP: the machines between only forward.
tcp_host() { # a|b site-number
	local other=$((3 - $2))
	lab_add_ns "t$1"
	lab_add_ns "n$1"
	LAB_MORE_NS="$LAB_MORE_NS t$1 n$1"
	lab_veth "t$1" lan "n$1" host
	lab_veth "e$1" lan1 "n$1" edge
	lab_ip "t$1" addr add "10.102.$2.2/24" dev lan
	lab_ip "e$1" addr add "10.102.$2.1/24" dev lan1
	lab_ip "t$1" link set lan up
	lab_ip "e$1" link set lan1 up
	lab_ip "n$1" link set host up
	lab_ip "n$1" link set edge up
	lab_offload "t$1" lan tso off gso off tx off
	lab_offload "e$1" lan1 tso off gso off tx off
	lab_ip "t$1" route add default via "10.102.$2.1"
	lab_ip "e$1" route add "10.102.$other.0/24" via "192.0.2.$other"
	ip netns exec "$LAB_ID-n$1" "$LAB_TOOLS/wanline" --rate 0 --km 0 host edge 2>>"$LAB_DIR/null.log" &
}

serve() {
	tcp_host a 1
	tcp_host b 2
	ip netns exec "$LAB_ID-eb" iperf3 -s >"$LAB_DIR/iperf3.log" 2>&1 &
	ip netns exec "$LAB_ID-eb" "$LAB_BUILD/bench/bench_msg" serve 192.0.2.2 5300 &
	ip netns exec "$LAB_ID-tb" "$LAB_BUILD/bench/bench_msg" serve 10.102.2.2 5300 &
	lab_server "$B_HOST" --ring $RING
	lab_server "$B_HOST" --ring $RING --port 18516
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$LAB_DIR/web.key" -out "$LAB_DIR/web.crt" \
		-days 2 -subj /CN=192.0.2.1 2>/dev/null || lab_die "openssl failed"
	mkdir -p "$LAB_SHM/web"
	truncate -s $((LINE_MBPS * 1000000 / 8 * (SECS + 3))) "$LAB_SHM/web/data"
	leave_out_dead_quic
	lab_wait 3 lab_listens eb 5201 && lab_wait 3 lab_listens eb 5300 && lab_wait 3 lab_listens tb 5300 || lab_die "iperf3 or bench_msg does not listen"
}

goodput_tcp() { # congestion control, streams
	lab_in ea timeout $((SECS + 8)) iperf3 -c 192.0.2.2 -C "$1" -P "$2" -t "$SECS" -O 1 -J \
		>"$LAB_DIR/tcp.json" 2>"$LAB_DIR/tcp.err"
	RESULT=$(jq -r '.end.sum_received.bits_per_second / 1e6 | round' "$LAB_DIR/tcp.json" 2>/dev/null)
	[[ "$RESULT" =~ ^[1-9][0-9]*$ ]] && return
	failed "iperf3: $(jq -r '.error // empty' "$LAB_DIR/tcp.json" 2>/dev/null | head -1)$(tail -1 "$LAB_DIR/tcp.err")"
}

size_of() {
	stat -c %s "$1" 2>/dev/null || echo 0
}

# The server sends, so the server is at site A. Packets are as large as TCP's; the program's default would be 1452 bytes.
goodput_quic() { # congestion control
	local server client one two dead=
	ip netns exec "$LAB_ID-ea" gtlsserver -q --no-quic-dump --no-http-dump --cc="$1" --max-udp-payload-size=8900 \
		-d "$LAB_SHM/web" 192.0.2.1 4433 "$LAB_DIR/web.key" "$LAB_DIR/web.crt" >"$LAB_DIR/web.log" 2>&1 &
	server=$!
	rm -rf "$LAB_SHM/got"
	mkdir -p "$LAB_SHM/got"
	sleep 0.2
	ip netns exec "$LAB_ID-eb" timeout $((SECS + 1)) gtlsclient -q \
		--no-quic-dump --no-http-dump --exit-on-all-streams-close \
		--max-data=256M --max-stream-data-bidi-local=256M --max-window=512M --max-stream-window=512M \
		--download="$LAB_SHM/got" 192.0.2.1 4433 https://192.0.2.1:4433/data >"$LAB_DIR/quic.log" 2>&1 &
	client=$!
	sleep 1
	one=$(size_of "$LAB_SHM/got/data")
	sleep $((SECS - 1))
	two=$(size_of "$LAB_SHM/got/data")
	kill -0 $server 2>/dev/null || dead=yes
	kill $client $server 2>/dev/null
	wait $client $server 2>/dev/null
	rm -rf "$LAB_SHM/got"
	[ -z "$dead" ] || failed "gtlsserver --cc=$1 died: $(tail -1 "$LAB_DIR/web.log" | cut -c1-80)" || return
	RESULT=$(((two - one) * 8 / (SECS - 1) / 1000000))
	[ "$RESULT" -gt 0 ] || failed "gtlsclient got $two bytes: $(tail -1 "$LAB_DIR/quic.log" | cut -c1-80)"
}

rcperf_between_hosts() { # json-file options...
	[ -z "$NO_LINK" ] || failed "$NO_LINK" || return
	LAB_PATIENCE=$((SECS + 20)) lab_rcperf_between $A_HOST $B_HOST "$1" --op write --drain-s 10 --ring $RING "${@:2}" &&
		return
	failed "rcperf: $(jq -r '.failure // empty' "$1" 2>/dev/null | head -1) $(tail -1 "$LAB_DIR/rcperf.err")"
}

goodput_longreach() {
	rcperf_between_hosts "$LAB_DIR/client.json" --size $MSG --depth 16 --qps 4 --secs "$SECS" --warmup 0.25 || return
	RESULT=$(lab_result '.there.executed_gbps * 1000 | round')
}

# Debian 12's server fails an assertion as soon as its BBR sends. This function tests and reports this once, instead of at each
# point.
leave_out_dead_quic() {
	(goodput_quic bbr) 2>/dev/null && return
	echo "no quic-bbr: $(tail -1 "$LAB_DIR/web.log" | cut -c1-100)"
	GOODPUTS=("${GOODPUTS[@]/quic-bbr/}")
}

run_goodput() { # system
	case $1 in
	longreach) goodput_longreach ;;
	quic-*) goodput_quic "${1#quic-}" ;;
	*-8) goodput_tcp "${1%-8}" 8 ;;
	*) goodput_tcp "$1" 1 ;;
	esac
}

every_ms() { # bytes Mbit/s
	awk -v b="$1" -v r="$2" 'BEGIN { printf "%.4f", b * 8 / r / 1000 }'
}

messages_tcp() { # namespace, server, congestion control, size, Mbit/s [bulk Mbit/s one|two]
	RESULT=$(lab_in "$1" timeout $((SECS + 8)) "$LAB_BUILD/bench/bench_msg" ask "$2" 5300 \
		"$4" "$5" "$SECS" "$3" "$TIMES" "${@:6}" 2>"$LAB_DIR/msg.err") ||
		failed "bench_msg: $(tail -1 "$LAB_DIR/msg.err")"
}

messages_longreach() { # size, Mbit/s, rcperf options
	rcperf_between_hosts "$LAB_DIR/client.json" --size "$1" --depth 2048 --every-ms "$(every_ms "$1" "$2")" \
		--secs "$SECS" --warmup 0 --times "$TIMES" "${@:3}"
}

run_latency() { # system
	case $1 in
	longreach) messages_longreach $MSG $((LINE_MBPS / 4)) ;;
	*-direct) messages_tcp ea 192.0.2.2 "${1%-*}" $MSG $((LINE_MBPS / 4)) ;;
	*) messages_tcp ta 10.102.2.2 "$1" $MSG $((LINE_MBPS / 4)) ;;
	esac
}

beside_longreach() {
	local bulk bulk_json="$LAB_DIR/bulk.json"
	rcperf_between_hosts "$bulk_json" --size $BULK --depth 512 --every-ms "$(every_ms $BULK $((LINE_MBPS / 2)))" \
		--secs $((SECS + 1)) --warmup 0 &
	bulk=$!
	sleep 0.5
	messages_longreach $SMALL $((LINE_MBPS / 25)) --port 18516 || WHY=${WHY:-no result}
	wait $bulk || failed "the bulk stream: $(jq -r '.failure // empty' "$bulk_json" 2>/dev/null | head -1)" || return
	RESULT=$(jq '.goodput_gbps * 1000 | round' "$bulk_json")
	[ -z "$WHY" ]
}

run_beside() { # system
	case $1 in
	longreach) beside_longreach ;;
	*-shared) messages_tcp ta 10.102.2.2 "${1%-*}" $SMALL $((LINE_MBPS / 25)) $((LINE_MBPS / 2)) one ;;
	*-apart) messages_tcp ta 10.102.2.2 "${1%-*}" $SMALL $((LINE_MBPS / 25)) $((LINE_MBPS / 2)) two ;;
	esac
}

# --- one point ---

edges() { # mode
	LAB_MODE=$1 LAB_RATE=$((LINE_MBPS * 999))k LAB_EXTRA=$SETTINGS
	lab_edges
	lab_link_up 2>>"$LAB_DIR/edges.err"
}

no_figure() { # km loss measure system
	echo "$1,$2,$3,$4,,,,,,,${WHY//,/;}" >>"$CSV"
	printf ' %s -' "$4"
}

goodputs() { # km loss, systems...
	local s
	for s in "${@:3}"; do
		RESULT= WHY=
		if run_goodput "$s"; then
			echo "$1,$2,goodput,$s,$RESULT,,,,,," >>"$CSV"
			printf ' %s %s' "$s" "$RESULT"
		else
			no_figure "$1" "$2" goodput "$s"
		fi
	done
}

median() {
	sort -n | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'
}

# A system that fails in any round has no figure.
times() { # km loss measure, systems...
	local r s
	declare -A bulk=() why=()
	rm -f "$LAB_DIR"/times.*
	for ((r = 0; r < ROUNDS; r++)); do
		for s in "${@:4}"; do
			RESULT= WHY= TIMES=$LAB_DIR/times.$s.$r
			if "run_$3" "$s"; then bulk[$s]+="$RESULT "; else why[$s]=${WHY:-no result}; fi
		done
	done
	for s in "${@:4}"; do
		WHY=${why[$s]:-}
		[ -n "$WHY" ] || RESULT=$("$LAB_BUILD/bench/bench_times" quantiles "$LAB_DIR/stalls" $(($1 / 100 + 3)) \
			"$LAB_DIR/times.$s".* 2>"$LAB_DIR/times.err") || WHY=$(tail -1 "$LAB_DIR/times.err")
		if [ -n "$WHY" ]; then
			no_figure "$1" "$2" "$3" "$s"
			continue
		fi
		echo "$RESULT" | awk -v at="$1,$2,$3,$s" -v bulk="$(tr ' ' '\n' <<<"${bulk[$s]}" | grep . | median)" '{
			printf "%s,%s,%s,%s,%s,%s,%s,\n", at, bulk, $1, $2, $3, $4, $5 }' >>"$CSV"
		printf ' %s %s' "$s" "$(echo "$RESULT" | awk '{ print $2 "/" $3 "/" $4 }')"
	done
}

measured() {
	[[ ",$MEASURES," = *,$1,* ]]
}

# If the link does not come up, longreach has no figure: packets would go past the edges.
with_edges() { # mode, command...
	NO_LINK=
	edges "$1" || NO_LINK="the link does not come up"
	"${@:2}"
	lab_edges_stop
}

# Goodput of longreach is measured last, so that no edge runs beside the other systems. Times of the other systems are measured
# beside idle edges.
point() { # km loss
	lab_line_set "$1" "loss=$2%"
	if measured goodput; then
		printf '%5s km %5s %% goodput ' "$1" "$2"
		goodputs "$1" "$2" ${GOODPUTS[*]:1}
		with_edges near goodputs "$1" "$2" longreach
		echo
	fi
	if measured latency; then
		printf '%5s km %5s %% latency ' "$1" "$2"
		with_edges host times "$1" "$2" latency "${LATENCIES[@]}"
		echo
	fi
	if measured beside; then
		printf '%5s km %5s %% beside  ' "$1" "$2"
		with_edges host times "$1" "$2" beside "${BESIDES[@]}"
		echo
	fi
}

# --- verdicts ---

value() { # km loss measure system column
	awk -F, -v k="$1" -v l="$2" -v m="$3" -v s="$4" -v c="$5" '$1 == k && $2 == l && $3 == m && $4 == s { print $c }' "$CSV"
}

# Prints the best figure of the other systems: the largest goodput, the smallest time. iperf3 also counts bytes under way at its
# start, so a figure above the line's rate counts as the line's rate.
best() { # km loss measure column
	awk -F, -v k="$1" -v l="$2" -v m="$3" -v c="$4" -v line="$LINE_MBPS" '
		$1 == k && $2 == l && $3 == m && $4 != "longreach" && $c != "" {
			x = m == "goodput" && $c > line ? line : $c
			if (v == "" || (m == "goodput" ? x > v : x < v)) v = x }
		END { print v }' "$CSV"
}

ratio() { # a b
	awk -v a="$1" -v b="$2" 'BEGIN { if (a == "" || b == "" || b == 0) exit; printf "%.2f", a / b }'
}

judge() { # what ratio '<=|>=' limit
	if [ -n "$2" ]; then verdict "$@"; else no_verdict "$1" "no figure of one of the two: see wan.csv"; fi
}

verdicts() {
	local p km loss c name ours
	printf '\nlongreach beside the best of the others\n'
	for p in "${POINTS[@]}"; do
		km=${p%%:*} loss=${p#*:}
		if measured goodput; then
			ours=$(value "$km" "$loss" goodput longreach 5)
			judge "$km km, $loss % loss: goodput / best" \
				"$(ratio "$ours" "$(best "$km" "$loss" goodput 5)")" '>=' 0.95
			[ "$p" != 1000:1 ] || judge "$km km, $loss % loss: goodput / one CUBIC stream" \
				"$(ratio "$ours" "$(value "$km" "$loss" goodput cubic 5)")" '>=' 2
		fi
		for m in latency beside; do
			measured $m || continue
			for c in 7:p50 8:p99 9:p99.9; do
				name=${c#*:}
				# Without losses longreach has nothing to gain, and may be slower by a tenth.
				judge "$km km, $loss % loss: $name of $(
					[ $m = latency ] && echo '64 KiB' || echo '4 KiB beside bulk') / best" \
					"$(ratio "$(value "$km" "$loss" $m longreach "${c%%:*}")" \
						"$(best "$km" "$loss" $m "${c%%:*}")")" '<=' \
					"$([ "$loss" = 0 ] && echo 1.1 || echo 1)"
			done
		done
	done
	awk -F, 'NR > 1 && $11 != "" { print "  no figure: " $4 " " $3 " at " $1 " km, " $2 " %: " $11 }' "$CSV" |
		sort | uniq -c | sort -rn | head -20
}

plots() {
	local kind
	for kind in goodput latency; do
		measured $kind || continue
		gnuplot -e "csv='$CSV'; kind='$kind'; line=$LINE_MBPS; out='$OUT/wan-$kind.svg'" "$LAB_ROOT/bench/plot_wan.gp" ||
			echo "gnuplot did not draw $OUT/wan-$kind.svg"
	done
	awk -v s="$SECONDS" '{ n++; ms += ($2 - $1) / 1e6 } END {
		printf "a processor of this machine stood still %d times in %d s, for %.0f ms in all\n", n, s, ms }' "$LAB_DIR/stalls"
	echo "figures: $CSV; drawn: $(ls "$OUT"/wan-*.svg 2>/dev/null | tr '\n' ' ')"
}

options "$@"
need
make -s -C "$LAB_ROOT" O="$LAB_BUILD" "$LAB_BUILD/bench/bench_msg" "$LAB_BUILD/bench/bench_times" || exit
mkdir -p "$OUT" || exit
CSV=$OUT/wan.csv
echo km,loss_percent,measure,system,mbit_s,n,p50_us,p99_us,p99_9_us,left_out,why >"$CSV"
lab_up
for ns in ea eb; do
	lab_sysctl $ns net.ipv4.tcp_rmem='4096 131072 67108864' net.ipv4.tcp_wmem='4096 131072 67108864'
done
choose_line
lab_line --rate "${LINE_MBPS}M" --queue 1M
serve
ip netns exec "$LAB_ID-line" "$LAB_BUILD/bench/bench_times" watch "$LAB_DIR/stalls" & # ends with the namespace
echo "goodput in Mbit/s; latency and beside: p50/p99/p99.9 in us"
for p in "${POINTS[@]}"; do
	point "${p%%:*}" "${p#*:}"
done
verdicts
plots
