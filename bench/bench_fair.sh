#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_fair.sh - how longreach with RateControl=auto shares one bottleneck with TCP, and two of its links with each
# other, beside how BBR and CUBIC share it in the same run. Root.
#
#   bench/bench_fair.sh [--secs N] [--line MBPS] [--km KM] [--out DIR] [BUFFER ...]      BUFFER in bandwidth-delay products
#
# Default: buffers of 0.5, 1 and 4, about 12 minutes; with QUICK=1 only 1. Two senders at a time start together and always have
# data to send; the bytes that arrive in the last two thirds count. Two links reach equal shares within half a minute, and their
# shares then swing for tens of seconds (lrsim --rate late-4bdp): so two links run five times as long. DIR (default bench-out)
# gets fair.csv. The verdicts:
#
#   harm        beside longreach CUBIC gets at least its share beside BBR, or half of all that arrives
#   starvation  beside any other sender longreach gets at least a quarter of all that arrives
#   itself      the smaller of two links gets at least 0.8 of the larger
#
# TCP runs between the edges' machines (iperf3), longreach between the hosts (rcperf) across the edges: both send the same
# kind of packets onto the line, MTU 9000, offloads off.
. "$(dirname "$0")/../tests/netns/lab.sh"
. "$(dirname "$0")/bench.sh"

SECS=30 LINE_MBPS=200 KM=2000 OUT=bench-out BUFFERS=()

options() {
	[ -z "${QUICK:-}" ] || SECS=12
	while [ $# -gt 0 ]; do
		case $1 in
		--secs) SECS=$2 ;;
		--line) LINE_MBPS=$2 ;;
		--km) KM=$2 ;;
		--out) OUT=$2 ;;
		[0-9]*) BUFFERS+=("$1") && shift && continue ;;
		*)
			sed -n '6s/^# *//p' "$0" >&2
			exit 2
			;;
		esac
		shift 2 || exit 2
	done
	[ ${#BUFFERS[@]} -gt 0 ] || { [ -n "${QUICK:-}" ] && BUFFERS=(1) || BUFFERS=(0.5 1 4); }
}

has_cc() {
	grep -qw "$1" /proc/sys/net/ipv4/tcp_available_congestion_control
}

# --- the two links: a pair of hosts each, a port each, one daemon at each edge ---

eval "$(declare -f lab_conf | sed '1s/lab_conf/lab_conf_of_all/')"

conf_of_pair() { # a|b host-number port
	lab_conf_of_all "$1" |
		sed -E "/Prefix=(10.101.1[12]|fd00)/d; s|(Prefix=10.101.[12].)0/24|\1$2/32|; s|^\[Path\]|&\nPort=$3|"
}

lab_conf() { # a|b
	conf_of_pair "$1" 2 4790
}

start_edges() {
	local e
	LAB_MODE=near LAB_FEC=off LAB_RATE=${LINE_MBPS}M LAB_EXTRA=Path.RateControl=auto
	for e in a b; do
		mkdir -p "$LAB_DIR/$e"
		conf_of_pair $e 3 4792 >"$LAB_DIR/$e/two.conf"
		LAB_DAEMON_ARGS="--config $LAB_DIR/$e/two.conf"
		lab_edge_start $e
	done
	lab_wait 10 both_up || lab_die "the links do not come up: $(lab_logs | tail -3)"
}

both_up() {
	[ "$(lab_status a '[.links[].state] | join(" ")')" = "up up" ] &&
		[ "$(lab_status b '[.links[].state] | join(" ")')" = "up up" ]
}

# --- senders: each function writes the Mbit/s that arrived into a file, or nothing if the sender failed ---

send_tcp() { # congestion control, which of two, file
	lab_in ea timeout $((SECS + 8)) iperf3 -c 192.0.2.2 -p $((5200 + $2)) -C "$1" -t $((SECS - SECS / 3)) \
		-O $((SECS / 3)) -J 2>/dev/null |
		jq -r '.end.sum_received.bits_per_second // empty | . / 1e6' >"$3" 2>/dev/null
}

send_longreach() { # which of two, file
	local n=$(($1 + 1))
	LAB_PATIENCE=$((SECS + 20)) lab_rcperf_between "10.101.1.$n" "10.101.2.$n" "$2.json" --port $((18514 + $1)) --op write \
		--size 65536 --depth 16 --qps 4 --secs "$SECS" --warmup 0.333 --drain-s 15
	jq -r '.there.executed_gbps // empty | . * 1000' "$2.json" 2>/dev/null | awk '$1 > 0' >"$2"
}

send() { # system, which of two
	if [ "$1" = longreach ]; then
		send_longreach "$2" "$LAB_DIR/got.$2"
	else
		send_tcp "$1" "$2" "$LAB_DIR/got.$2"
	fi
}

declare -A GOT # "buffer first second": what each got

secs_of() { # first second
	[ "$1 $2" = "longreach longreach" ] && echo $((5 * SECS)) || echo "$SECS"
}

pair() { # buffer first second
	local one two a b SECS=$SECS
	SECS=$(secs_of "$2" "$3")
	rm -f "$LAB_DIR"/got.*
	lab_line_set "$KM" "queue=$(queue_bytes "$1")"
	send "$2" 1 &
	one=$!
	send "$3" 2 &
	two=$!
	wait $one $two
	a=$(cat "$LAB_DIR/got.1" 2>/dev/null) b=$(cat "$LAB_DIR/got.2" 2>/dev/null)
	echo "$1,$2,$3,$a,$b" >>"$CSV"
	if [ -z "$a" ] || [ -z "$b" ]; then
		printf '%6s  %-10s %-10s          -          -   no figure of %s\n' "$1" "$2" "$3" \
			"$([ -n "$a" ] && echo "$3" || echo "$2")"
		return
	fi
	GOT["$1 $2 $3"]="$a $b"
	awk -v q="$1" -v x="$2" -v y="$3" -v a="$a" -v b="$b" -v l="$LINE_MBPS" 'BEGIN {
		printf "%6s  %-10s %-10s %10.1f %10.1f %9.2f %9.2f %9.0f %%\n",
			q, x, y, a, b, a / (a + b), a / b, 100 * (a + b) / l }'
}

queue_bytes() { # bandwidth-delay products
	awk -v b="$1" -v m="$LINE_MBPS" -v km="$KM" 'BEGIN { printf "%d", b * m * 1e6 / 8 * km * 1e-5 }'
}

# --- verdicts ---

of() { # "buffer first second" awk-expression of a and b
	[ -n "${GOT[$1]:-}" ] && echo "${GOT[$1]}" | awk "{ a = \$1; b = \$2; printf \"%.2f\", $2 }"
}

judge() { # what figure op limit
	if [ -n "$2" ]; then verdict "$@"; else no_verdict "$1" "no figure: see fair.csv"; fi
}

verdicts() { # buffer
	local beside_lr beside_bbr half
	beside_lr=$(of "$1 longreach cubic" 'b') half=$(of "$1 longreach cubic" '(a + b) / 2')
	beside_bbr=$(of "$1 bbr cubic" 'b')
	if [ -n "$beside_lr" ] && [ -n "$beside_bbr" ]; then
		judge "$1 BDP: CUBIC beside longreach / beside BBR, or half of the line" \
			"$(awk -v l="$beside_lr" -v b="$beside_bbr" -v h="$half" \
				'BEGIN { printf "%.2f", l / (b < h ? b : h) }')" '>=' 1
	else
		no_verdict "$1 BDP: CUBIC beside longreach / beside BBR, or half of the line" "no figure of one of them"
	fi
	judge "$1 BDP: longreach's share beside CUBIC" "$(of "$1 longreach cubic" 'a / (a + b)')" '>=' 0.25
	judge "$1 BDP: longreach's share beside BBR" "$(of "$1 longreach bbr" 'a / (a + b)')" '>=' 0.25
	judge "$1 BDP: two links, the smaller by the larger" "$(of "$1 longreach longreach" '(a < b ? a / b : b / a)')" '>=' 0.8
}

options "$@"
command -v iperf3 >/dev/null && command -v jq >/dev/null || lab_die "missing: iperf3 or jq"
has_cc cubic || lab_die "this kernel has no TCP CUBIC"
PAIRS=("bbr cubic" "longreach cubic" "longreach bbr" "longreach longreach")
has_cc bbr || {
	echo "this kernel has no TCP BBR (only $(cat /proc/sys/net/ipv4/tcp_available_congestion_control)): no pairs with BBR"
	PAIRS=("longreach cubic" "longreach longreach")
}
mkdir -p "$OUT" || exit
CSV=$OUT/fair.csv
echo buffer_bdp,first,second,first_mbit_s,second_mbit_s >"$CSV"
lab_up
for ns in ea eb; do
	lab_sysctl $ns net.ipv4.tcp_rmem='4096 131072 67108864' net.ipv4.tcp_wmem='4096 131072 67108864'
done
# The line allocates its memory at the start, so it starts with the largest buffer.
lab_line --rate "${LINE_MBPS}M" --km "$KM" --queue "$(queue_bytes "$(printf '%s\n' "${BUFFERS[@]}" | sort -g | tail -1)")"
start_edges
for n in 1 2; do
	ip netns exec "$LAB_ID-eb" iperf3 -s -p $((5200 + n)) >/dev/null 2>&1 &
	lab_server "10.101.2.$((n + 1))" --port $((18514 + n))
	lab_wait 3 lab_listens eb $((5200 + n)) || lab_die "iperf3 does not listen"
done
echo "line: $LINE_MBPS Mbit/s, $KM km; $SECS s for each pair, $(secs_of longreach longreach) s for two links," \
	"whose shares need longer to settle; the last two thirds of the time count"
say_if_busy
printf '%6s  %-10s %-10s %10s %10s %9s %9s %11s\n' buffer first second Mbit/s Mbit/s share ratio 'of the line'
for buffer in "${BUFFERS[@]}"; do
	for p in "${PAIRS[@]}"; do
		pair "$buffer" ${p% *} ${p#* }
	done
done
echo
for buffer in "${BUFFERS[@]}"; do
	verdicts "$buffer"
done
echo "figures: $CSV"
