#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - the benchmarks one after the other, and at the end one table of their figures against their limits.
#
#   O=build/gcc bench/run.sh [PART...]      all parts, or the named parts; QUICK=1: short runs, planned for 8 minutes in all
#
# Each part prints its figures and their references. A part that fails, or takes three times its planned time, counts as failed,
# and the other parts still run. run.sh keeps all output in bench-out ($BENCH_OUT): PART.log, verdicts.tsv, CSVs, pictures.
# Needs root (network namespaces), and an idle machine.
cd "$(dirname "$0")/.." || exit 2
O=${O:-build/gcc}
OUT=${BENCH_OUT:-bench-out}
export O
export BENCH_VERDICTS=$OUT/verdicts.tsv

# Name, minutes, minutes with QUICK=1, description.
PARTS='core 6 0.3 a packet in the core: nanoseconds, instructions, beside copy + ICRC + AEAD
seal 0.1 0.1 the ciphers, by library
arena 0.2 0.2 the deep buffer, beside a copy
fec 1 0.2 erasure code, beside a copy
edge 0.5 0.3 a packet through a whole edge, beside a forwarder that does not change it
flood 1.5 0.5 foreign datagrams at the UDP port, beside a socket that discards them
beside 3 1.2 goodput and a new session while foreign users and machines connect and send datagrams, beside the same without them
scrape 1.5 1 a scrape of /metrics with 10,000 flows, beside one without flows
fair 12 1.7 one bottleneck, beside CUBIC, BBR and itself
crowd 10 1 10 to 1,000 queue pairs over one line, beside the same without edges
gpu 2 0.5 from GPU to GPU, beside memory to memory and the copies of CUDA; needs a GPU
copy 6 1 trees and large files to the other site, beside rsync, tar and scp over TCP
wan 32 1.8 goodput and latency over distance and loss, beside TCP and QUIC'

run_part() { # name
	local quick=${QUICK:-}
	case $1 in
	core) bench/bench_core.sh ;;
	seal | arena) "$O/bench/bench_$1" ;;
	fec) bench/bench_fec.sh ;;
	beside) bench/bench_beside.sh ;;
	edge | flood) SECS=${SECS:-${quick:+2}} bench/bench_$1.sh ;;
	scrape) bench/bench_scrape.sh ;;
	fair | crowd | wan | copy | gpu) bench/bench_$1.sh --out "$OUT" ;;
	esac
}

# Limits for parts that print no verdicts of their own.
judge_part() { # name log
	local BENCH_NAME=bench_$1
	case $1 in
	flood) judge_lines "$2" '/^edge: / && / x / { sub(/^edge: /, "")
		for (i = 1; i <= NF; i++) if ($i == "x") x = $(i - 1); else if ($i == "KiB") kib = $(i - 1) + 0
		split($0, name, /  +/)
		print name[1] ": processor time / discarding socket\t" x "\t<=\t1"
		print name[1] ": memory, KiB\t" kib "\t<=\t128" }' ;;
	esac
}

judge_lines() { # log awk-program that prints: what, figure, operator, limit
	local what figure op limit
	while IFS=$'\t' read -r what figure op limit; do
		verdict "$what" "$figure" "$op" "$limit"
	done < <(awk "$2" "$1")
}

# timeout gives a part its own process group, so that a hanging part is killed with all its processes.
part() { # number name minutes what
	local status log=$OUT/$2.log began=$SECONDS BENCH_NAME=bench_$2
	printf '\n=== [%d/%d] %s: %s (about %s min)\n' "$1" "$TOTAL" "$2" "$4" "$3"
	: >"$log"
	timeout -k 20 "$(awk -v m="$3" 'BEGIN { print int(m * 180 + 60) }')" bash "$0" --part "$2" >"$log" 2>&1 &
	RUNNING=$!
	tail -n +1 -f -s 0.5 --pid=$RUNNING "$log"
	wait $RUNNING
	status=$?
	RUNNING=
	if [ $status != 0 ]; then
		no_verdict "all of it" \
			"$([ $status = 124 ] && echo 'took too long' || echo "ended with status $status"): see $log"
		FAILED="$FAILED $2"
	fi
	judge_part "$2" "$log"
	printf '=== %s: %d s, %d s in all\n' "$2" $((SECONDS - began)) "$SECONDS"
}

interrupted() {
	[ -z "$RUNNING" ] || { kill "$RUNNING" && wait "$RUNNING"; } 2>/dev/null
	table
	exit 130
}

table() {
	printf '\n=== all figures against their limits\n'
	awk -F'\t' '{
		if ($1 != last) print (last == "" ? "" : "\n") $1
		last = $1
		n[$5]++
		printf "  %-66s %9s  %-10s %s\n", $2, $3, $4, $5 }
		END { printf "\n%d PASS, %d short, %d without a figure\n", n["PASS"], n["short"], n["-"] }' "$BENCH_VERDICTS"
	echo "kept in $OUT; it took $((SECONDS / 60)) min $((SECONDS % 60)) s"
}

if [ "${1:-}" = --part ]; then
	run_part "$2"
	exit
fi

. bench/bench.sh
mkdir -p "$OUT" || exit 2
: >"$BENCH_VERDICTS"
trap interrupted INT TERM
RUNNING= FAILED= TOTAL=0 i=0
chosen() {
	[ ${#WANTED[@]} = 0 ] || [[ " ${WANTED[*]} " = *" $1 "* ]]
}
WANTED=("$@")
for name in "${WANTED[@]}"; do
	grep -q "^$name " <<<"$PARTS" || {
		echo "run.sh: no part $name: $(cut -d' ' -f1 <<<"$PARTS" | tr '\n' ' ')" >&2
		exit 2
	}
done
while read -r name rest; do
	chosen "$name" && TOTAL=$((TOTAL + 1))
done <<<"$PARTS"
while read -r name minutes quick what <&3; do
	chosen "$name" || continue
	part $((++i)) "$name" "$([ -n "${QUICK:-}" ] && echo "$quick" || echo "$minutes")" "$what"
done 3<<<"$PARTS"
table
[ -z "$FAILED" ] || { echo "FAILED:$FAILED" && exit 1; }
