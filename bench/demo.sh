#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# demo.sh - two sites on this machine, the same RDMA WRITEs across the same line, without and with longreach.
. "$(dirname "$0")/../tests/netns/lab.sh"

KMS="0 100 300 1000 3000"
LOSSES="0 0.1 1"
POINTS=
SECS=4
RATE_MBPS=1000
SIZE=16384
DEPTH=16
OUT=$LAB_ROOT/demo-out
LAB_FEC=auto # the default; tests turn FEC off

usage() {
	cat <<END
usage: bench/demo.sh [options]      (as root, after make; about 3 minutes)
  --km 0,100,300,1000,3000   distances
  --loss 0,0.1,1             share of packets that the line loses, in per cent
  --points 300:0.1,1000:1    points (km:loss) instead of distances and losses
  --secs 4                   seconds per measurement
  --mode near|host           AckMode= of longreach (near)
  --rate 1000                the line, Mbit/s
  --size 16384 --depth 16    messages, and how many a host has outstanding
  --out DIR                  table and plot (demo-out/)
END
}

parse_options() {
	local value
	while [ $# -gt 0 ]; do
		value=${2:-}
		case $1 in
		--km) KMS=${value//,/ } ;;
		--loss) LOSSES=${value//,/ } ;;
		--points) POINTS=${value//,/ } ;;
		--secs) SECS=$value ;;
		--mode) LAB_MODE=$value ;;
		--rate) RATE_MBPS=$value ;;
		--size) SIZE=$value ;;
		--depth) DEPTH=$value ;;
		--out) OUT=$value ;;
		--help | -h) usage; exit 0 ;;
		*) usage >&2; exit 2 ;;
		esac
		[ $# -ge 2 ] || { usage >&2; exit 2; }
		shift 2
	done
}

calc() {
	awk "BEGIN { printf \"$1\", $2 }"
}

explain() {
	local out_kib=$((SIZE * DEPTH / 1024))
	cat <<END

  longreach: the same RDMA, over a long line, without and with two edge daemons

      host A ------ edge A ===================== edge B ------ host B
             LAN            0 to 3000 km of fibre         LAN
                            $(calc '%.3g' "$RATE_MBPS / 1000") Gbit/s, with and without packet loss

  Host A writes into host B's memory (RoCEv2, RC, go-back-N as NICs do it) and keeps $DEPTH messages of $SIZE bytes
  outstanding: $out_kib KiB. Host B checks every byte, and the order and number of messages.

  RC waits for the answer of the other end, so one QP can never pass $out_kib KiB (its outstanding bytes) per round trip,
  whatever the rate of the line. $out_kib KiB on a line of $(calc '%.3g' "$RATE_MBPS / 1000") Gbit/s show the same picture as the
  usual 8 MiB (128 x 64 KiB) on a line of $(
	calc '%.0f' "$RATE_MBPS / 1000 * 8 * 1024 / $out_kib") Gbit/s.
  Distances count 5 us per km, one way.

  direct:    the edges only route.
  longreach: the edges answer the hosts at LAN distance and repair the line's losses between them (AckMode=$LAB_MODE).

  Hosts, edges and the line share this machine's $(nproc) processors.

END
}

points() { # one "km loss" per line
	local km loss p
	if [ -n "$POINTS" ]; then
		for p in $POINTS; do
			echo "${p%%:*} ${p#*:}"
		done
		return
	fi
	for km in $KMS; do
		for loss in $LOSSES; do
			echo "$km $loss"
		done
	done
}

# --- the live line ---

BAR=$(printf '#%.0s' {1..24})

# Prints the present figures of the link at edge A.
link_words() {
	lab_status a "$STATUS_WORDS" 2>/dev/null
}

STATUS_WORDS='.links[0] | "RTT \(.rtt_ns / 1e4 | round / 100) ms, lost \(.counters.wan_lost), repaired \(.counters.wan_repairs)"'

live() { # what km loss seconds-so-far
	local now words='' share
	[ -t 1 ] || return 0
	now=$(tail -n 1 "$LAB_DIR/client.json" 2>/dev/null | jq -r '.gbps // empty' 2>/dev/null)
	[ "$1" = direct ] || words=$(link_words)
	share=$(calc '%d' "$4 / $SECS > 1 ? 24 : $4 / $SECS * 24")
	printf '\r\033[K  %-9s %5s km %5s %% loss [%-24s] %6.3f Gbit/s  %s' "$1" "$2" "$3" "${BAR:0:share}" "${now:-0}" "$words"
}

# Runs one measurement with the live line, and appends the result to the results file.
measure() { # direct|longreach km loss
	local pid start status
	lab_line_set "$2" "loss=$3%"
	lab_rcperf --secs "$SECS" --size "$SIZE" --depth "$DEPTH" --interval 0.5 &
	pid=$!
	start=$(date +%s%N)
	while kill -0 $pid 2>/dev/null; do
		live "$1" "$2" "$3" "$(calc '%.2f' "($(date +%s%N) - $start) / 1e9")"
		sleep 0.5
	done
	wait $pid
	status=$?
	[ -t 1 ] && printf '\r\033[K'
	tail -n 1 "$LAB_DIR/client.json" >"$LAB_DIR/last.json"
	jq -r --arg what "$1" --arg km "$2" --arg loss "$3" --arg status "$status" '[$what, $km, $loss, .there.executed_gbps,
		.verified_bytes, (if .ok and $status == "0" then "ok" else "FAILED" end), .here.retries] | @tsv' \
		"$LAB_DIR/last.json" >>"$LAB_DIR/results" 2>/dev/null ||
		printf '%s\t%s\t%s\t0\t0\tFAILED\t0\n' "$1" "$2" "$3" >>"$LAB_DIR/results"
	tail -n 1 "$LAB_DIR/results" | awk -F'\t' '{
		printf "  %-9s %5s km %5s %% loss   %6.3f Gbit/s   %8.1f MB verified   %5d retries by the host%s\n",
			$1, $2, $3, $4, $5 / 1e6, $7, $6 == "ok" ? "" : "   " $6 }'
}

direct_points() {
	local km loss
	while read -r km loss; do
		measure direct "$km" "$loss"
	done < <(points)
}

longreach_points() {
	local km loss last=
	while read -r km loss; do
		# A fibre does not change its length: each distance gets fresh daemons.
		if [ "$km" != "$last" ]; then
			lab_edges_stop
			lab_line_set "$km"
			lab_edges
			lab_link_up || exit 1
			last=$km
		fi
		measure longreach "$km" "$loss"
	done < <(points)
	lab_edges_stop
}

# --- the end ---

table() {
	awk -F'\t' '
		{ key = $2 "\t" $3; g[$1, key] = $4; v[key] += $5; if ($6 != "ok") bad[key] = 1 }
		!(key in seen) { seen[key] = 1; order[++n] = key }
		END {
			printf "  %8s %8s  %14s  %14s  %7s  %14s\n", "distance", "loss", "direct", "longreach", "ratio", "verified"
			for (i = 1; i <= n; i++) {
				key = order[i]; split(key, p, "\t"); d = g["direct", key]; l = g["longreach", key]
				printf "  %5s km %6s %%  %7.3f Gbit/s  %7.3f Gbit/s  %7s  %11.1f MB%s\n", p[1], p[2], d, l,
					(d > 0 ? sprintf("%.1f x", l / d) : "-"), v[key] / 1e6, ((key in bad) ? "  FAILED" : "")
			}
		}' "$LAB_DIR/results"
}

plot() {
	command -v gnuplot >/dev/null || { echo "  (gnuplot is missing: no plot)"; return 0; }
	gnuplot -e "results='$OUT/demo.tsv'; out='$OUT/demo.svg'; rate=$(calc '%.3f' "$RATE_MBPS / 1000"); losses='$(cut -f3 \
		"$LAB_DIR/results" | sort -gu | tr '\n' ' ')'" "$LAB_ROOT/bench/plot_demo.gp" && echo "  plot:  $OUT/demo.svg"
}

report() {
	echo
	table | tee "$OUT/demo.txt"
	echo
	(printf '#what\tkm\tloss_percent\tgbps\tverified_bytes\tverdict\thost_retries\n' && cat "$LAB_DIR/results") \
		>"$OUT/demo.tsv"
	echo "  Goodput is what host B executed, payload only; its ceiling on this line is" \
		"$(calc '%.3f' "$RATE_MBPS / 1000 * 4096 / (4096 + 100)") Gbit/s."
	echo "  table: $OUT/demo.txt, $OUT/demo.tsv"
	plot
	lab_line_stop
	sed -n 's/^wanline a>b: \(.*; \)\(sent late.*\)/  The line itself: packets were \2./p; /EMULATOR/p' "$LAB_DIR/line.log"
	! grep -q FAILED "$LAB_DIR/results"
}

parse_options "$@"
for need in "$LAB_TOOLS/wanline" "$LAB_TOOLS/rcperf" "$LAB_BIN/longreachd" "$LAB_BIN/longreach"; do
	[ -x "$need" ] || lab_die "$need is not built: make"
done
explain
LAB_RATE=$((RATE_MBPS * 95 / 100))M
lab_up
mkdir -p "$OUT"
lab_line --grain 100us --rate "${RATE_MBPS}M"
lab_server $B_HOST
direct_points
echo
longreach_points
report
