#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - all stages of `make test`, each within its budget; a table of what they took; "N passed, N failed" at the
# end.
#
#   tests/run.sh [STAGE...]      stages: build unit sim fuzz netns sanitize vm
#   FULL=1                       the long form of each (make test-all)
set -u
cd "$(dirname "$0")/.." || exit 2
FULL=${FULL:-}
jobs=$(nproc)
logs=build/test-logs
mkdir -p $logs
passed=0 failed=0
table=""

# pick SHORT LONG, by FULL; seeds SHORT LONG: a range.
pick() { [ -n "$FULL" ] && echo "$2" || echo "$1"; }
seeds() { echo "1-$(pick "$1" "$2")"; }

say() { printf '\n=== %s\n' "$*"; }

# step NAME COMMAND...: one verdict. Output goes to a log, its last lines are shown when it fails.
step() {
	local name=$1 log start=$SECONDS
	shift
	log=$logs/${name//[^a-zA-Z0-9]/_}.log
	if "$@" >"$log" 2>&1 || again "$log" "$@"; then
		passed=$((passed + 1))
		printf 'ok    %-34s %4d s   %s\n' "$name" $((SECONDS - start)) \
			"$(grep -aE "$summary" "$log" | tail -1 | cut -c1-110)"
	else
		failed=$((failed + 1))
		printf 'FAIL  %-34s %4d s   see %s\n' "$name" $((SECONDS - start)) "$log"
		red+=$(printf '%s:' "$name"; reasons "$log" 2)$'\n'
		reasons "$log" 12 | grep . || tail -40 "$log"
	fi
	# A test that failed once and then passed is not red, but somebody should look at it.
	grep -a '^unsteady' "$log"
}

# again LOG COMMAND...: the second try of a step that may have one ($grave: what its failures must not say), as the
# guests are not run for seconds when this machine's processors are others' as well.
again() {
	local log=$1
	shift
	[ -n "$grave" ] && [ "$(grep -ac ' FAIL ' "$log")" -le 2 ] && ! grep -aqE ' FAIL .*('"$grave"')' "$log" || return
	mv "$log" "$log.first"
	"$@" >"$log" 2>&1 || return
	sed -n 's/.* FAIL /unsteady: failed once: /p' "$log.first" >>"$log"
}
grave=

# reasons LOG N: the lines of a log that say what failed, each with the N lines that follow and explain it.
reasons() {
	grep -aE -A"$2" '(^|\] )FAIL |FAILED|[Ee]rror:|Sanitizer|violation:|^not ok' "$1" | head -60
}
red=
summary='passed, |faults, |PASSED|seeds,|calls nothing|violations|goodput|rebuilt;'

build() {
	step 'build gcc' make -j"$jobs" O=build/gcc CC=gcc all
	step 'build clang' make -j"$jobs" O=build/clang CC=clang all sim-bin
	step 'build asan' make -j"$jobs" O=build/gcc-asan CC=gcc SAN=asan all sim-bin
	step 'build tsan' make -j"$jobs" O=build/gcc-tsan CC=gcc SAN=tsan build/gcc-tsan/longreachd build/gcc-tsan/longreach
	step 'build simulator' make -j"$jobs" O=build/gcc CC=gcc sim-bin
	step 'build fuzzers' make -j"$jobs" fuzz-bin
	step 'core is pure' make O=build/gcc check-pure
}

unit() {
	step 'unit tests' make -j"$jobs" O=build/gcc CC=gcc unit
	step 'unit tests, asan+ubsan' make -j"$jobs" O=build/gcc-asan CC=gcc SAN=asan unit
}

sim() {
	step 'simulator seeds' build/gcc/lrsim --seeds "$(seeds 400 2000)" --jobs "$jobs"
	step 'seeds that found something' build/gcc/lrsim --seeds 1321
	step 'seeds under asan+ubsan' build/gcc-asan/lrsim --seeds "$(seeds 40 500)" --jobs "$jobs"
	step '1,000 QPs, equal QPNs, PSN 0' build/gcc/lrsim --many-qps 1000
	step 'rate controllers on one bottleneck' build/gcc/lrsim --jobs "$jobs" --rate "$(pick all grid)"
	step 'incast: 256 QPs into one port' build/gcc/lrsim --incast
	step 'a beginning without help' build/gcc/lrsim --begin all
	step 'dead flows: what others keep' build/gcc/lrsim --fair "$(pick dead-near all)"
	step 'a WAN cut for 10 s: who lives' build/gcc/lrsim --cut all
	step 'a frozen host: what others keep' build/gcc/lrsim --frozen
	step 'READs over 300 km' build/gcc/lrsim --reads 300km-4qp
	step 'READs over 1000 km' build/gcc/lrsim --reads 1000km-8qp
	step 'READs with the memory of Size=auto' build/gcc/lrsim --reads 10g-300km-16qp
	step 'READs larger than the pool' build/gcc/lrsim --reads larger-than-pool
	step 'full arena: back within 2 RTT' build/gcc/lrsim --full-arena
	step 'headroom holds, and not with less' build/gcc/lrsim --pause-link
	# Those that few seeds find at once; FULL: each of them all, see lrsim --faults.
	if [ -n "$FULL" ]; then
		step 'every deliberate bug' build/gcc/lrsim --fault-table --seeds 1-500 --jobs "$jobs"
	else
		for fault in ack_too_far drop_slot wrong_msn mispair stale_incarnation past_read barrier_off \
			far_as_near delivered_again nak_repeated far_frees_first probe_together; do
			step "deliberate bug: $fault" build/gcc/lrsim --seeds 1-200 --fault $fault --expect-failure
		done
	fi
	step '400G x 1000 km, 1 % loss' build/gcc/lrsim --full 400g-1000km-4096-loss1
	if [ -z "$FULL" ]; then
		step 'FEC=auto, bursts, an idle line' build/gcc/lrsim --fec auto-burst8-load1
		step 'FEC=auto, a slow line, messages' build/gcc/lrsim --fec slow-msgs-1000km-1
		step 'FEC=auto, a slow line, full' build/gcc/lrsim --fec slow-full-1000km-1
	else
		for run in $(build/gcc/lrsim --fec list); do
			step "FEC $run" build/gcc/lrsim --fec "$run"
		done
	fi
	[ -z "$FULL" ] || for run in $(build/gcc/lrsim --full list); do
		step "full scale $run" build/gcc/lrsim --full "$run"
	done
	[ -z "$FULL" ] || step 'latency over distance' build/gcc/lrsim --latency
}

fuzz() {
	step 'fuzzers' make fuzz SECONDS="$(pick 15 300)"
}

netns() {
	step 'namespaces' env O=build/gcc FULL="$FULL" tests/netns/run.sh
}

# The real daemons under the sanitizers: a report, or an end that is not clean, fails the test.
sanitize() {
	step 'daemons, tsan, 2 and 3 workers' env LAB_BIN="$PWD/build/gcc-tsan" O=build/gcc \
		tests/netns/run.sh paths manage pause seal
	step 'daemons, asan+ubsan' env LAB_BIN="$PWD/build/gcc-asan" O=build/gcc tests/netns/run.sh promise link
}

vm() {
	if [ -n "$FULL" ]; then
		step 'guests, all programs' tests/vm/run.sh --full --build build/gcc
		step 'guests, acceptance' tests/vm/run.sh --accept --build build/gcc
	else
		grave='[1-9][0-9]* wrong|a wrong|not there|died|killed|early' \
			step 'guests' tests/vm/run.sh --quick --build build/gcc
	fi
}

declare -A budget=([build]=160 [unit]=100 [sim]=130 [fuzz]=120 [netns]=460 [sanitize]=110 [vm]=120)
[ $# -gt 0 ] || set -- build unit sim fuzz netns sanitize vm
for stage; do
	start=$SECONDS
	say "$stage (budget ${budget[$stage]} s)"
	$stage
	table+=$(printf '%-8s %6d s of %4d s' "$stage" $((SECONDS - start)) "${budget[$stage]}")$'\n'
done
say 'time'
printf '%s' "$table"
printf 'total    %6d s of 1200 s\n\n' "$SECONDS"
if [ -n "$FULL" ] && [ -f $logs/every_deliberate_bug.log ]; then
	say 'deliberate bugs: what finds them, after how many seeds'
	cat $logs/every_deliberate_bug.log
fi
[ -z "$red" ] || printf 'red:\n%s\n' "$red"
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
