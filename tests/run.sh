#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - all stages of `make test`, each within its budget; a table of their times; "N passed, N failed" at the end.
#
#   tests/run.sh [STAGE...]      stages: build unit lint sim fuzz netns sanitize vm
#   FULL=1                       the long form of each (make test-all)
set -u
cd "$(dirname "$0")/.." || exit 2
FULL=${FULL:-}
jobs=$(nproc)
logs=build/test-logs
mkdir -p $logs
table=""
# shellcheck source=step.sh
. tests/step.sh

# pick SHORT LONG, by FULL; seeds SHORT LONG: a range.
pick() { [ -n "$FULL" ] && echo "$2" || echo "$1"; }
seeds() { echo "1-$(pick "$1" "$2")"; }

# The last line of a command that counts its tests.
counted='^[1-9][0-9]* passed, 0 failed'

say() { printf '\n=== %s\n' "$*"; }

# beside NAME COMMAND...: starts COMMAND; joined NAME, as the command of a step, waits for it and prints its output. For commands
# that keep one processor busy, to run several of them at once.
declare -A beside_pid=()
trap '[ ${#beside_pid[@]} = 0 ] || kill "${beside_pid[@]}"' EXIT
beside() {
	local name=$1
	shift
	"$@" >"$logs/beside_$name" 2>&1 &
	beside_pid[$name]=$!
}

joined() {
	local status
	wait "${beside_pid[$1]}"
	status=$?
	unset "beside_pid[$1]"
	cat "$logs/beside_$1"
	return $status
}

build() {
	step 'build gcc, simulator, fuzzers' make -j"$jobs" O=build/gcc CC=gcc all sim-bin fuzz-bin
	step 'build asan' make -j"$jobs" O=build/gcc-asan CC=gcc SAN=asan build/gcc-asan/longreachd build/gcc-asan/longreach sim-bin
	step 'build tsan' make -j"$jobs" O=build/gcc-tsan CC=gcc SAN=tsan build/gcc-tsan/longreachd build/gcc-tsan/longreach
	# Each of these keeps one processor busy, at most.
	beside harness tests/harness.sh
	beside rooms make O=build/gcc check-rooms
	step 'core is pure' make O=build/gcc check-pure
	step 'probes' make O=build/gcc check-probes
	step 'docs/IBTA.md' make check-ibta
	step 'docs/FILES.md' make check-docs
	step 'longreach(7)' make O=build/gcc check-manual
	step 'exposure of the units' make check-units
	ends=$counted step 'removal of the package' tests/deb_prerm.sh
	ends=$counted step 'units of the package' tests/deb_units.sh
	step 'rooms' joined rooms
	step 'dashboard and alert rules' tests/dashboards.sh
	ends=$counted step 'the tests of these tests' joined harness
	[ -z "$FULL" ] || step 'Debian packages' make deb
	[ -z "$FULL" ] || step 'packages in a root' tests/deb.sh
	[ -z "$FULL" ] || step 'packages in a guest' tests/deb_boot.sh
}

# Checks that only read the tree and produce no programs.
lint() {
	step "clang's warnings" make check-clang
	[ -z "$FULL" ] || step 'build clang' make -j"$jobs" O=build/clang CC=clang OPT=-O0 all sim-bin
	step 'lint' make lint
}

unit() {
	ends=$counted step 'unit tests' make -j"$jobs" O=build/gcc CC=gcc unit
	ends=$counted step 'unit tests, asan+ubsan' make -j"$jobs" O=build/gcc-asan CC=gcc SAN=asan unit
}

# each_run OPTION NAME: a step for every run that lrsim lists.
each_run() {
	local run runs
	runs=$(build/gcc/lrsim "--$1" list)
	for run in ${runs:-nothing-listed}; do
		step "$2 $run" build/gcc/lrsim "--$1" "$run"
	done
}

# RateControl= on a shared bottleneck, on lines that change, lose and reorder; FULL: on all lines, and all thin and lame
# lines.
rates() {
	local run
	if [ -n "$FULL" ]; then
		step 'rate controllers on one bottleneck' build/gcc/lrsim --jobs "$jobs" --rate grid
		step 'lines that move' build/gcc/lrsim --jobs "$jobs" --rate moving
		each_run thin 'thin line'
		each_run lame 'lame line'
		return
	fi
	for run in 1g-20ms-1bdp 200m-10ms-4bdp late-0.5bdp step-rate-1000-100 step-delay-1-10 policer-small reorder-rtt \
		beside-bbr-rate-1000-100 beside-cubic-rate-1000-10-short autos-one-by-one \
		alone-loss1-shallow marked; do
		step "rate $run" build/gcc/lrsim --jobs "$jobs" --rate $run
	done
	step 'thin line 100:1' build/gcc/lrsim --thin thin-100-32
	step 'one direction is dead' build/gcc/lrsim --lame one-way-busy
}

# seeds_again SEEDS: each seed that once found a bug and is not in the range.
seeds_again() {
	local seed
	for seed in $1; do
		step "seed $seed, which found something" build/gcc/lrsim --seeds "$seed"
	done
}

# Each deliberate bug names its violations, or an existing unit test.
faults_named() {
	local t
	build/gcc/lrsim --faults || return
	for t in $(build/gcc/lrsim --faults | sed -n 's/^ *shown by \([a-z_]*__[a-z_]*\)$/\1/p'); do
		grep -qrw "$t" tests/unit || { echo "FAIL there is no unit test $t" && return 1; }
	done
}

# A deliberate bug that only shows by other violations counts as missed.
missed_by_its_rule() {
	local said
	! said=$(build/gcc/lrsim --seeds 1-4 --fault wrong_msn --ignore msn --expect-failure) || return
	grep 'not found in 4 seeds, of which [1-9] fail by other rules' <<<"$said"
}

sim() {
	step 'simulator seeds' build/gcc/lrsim --seeds "$(seeds 150 2000)" --jobs "$jobs"
	seeds_again "$(pick '395 1321 6622 6837 9497 900422' '395 426 717 944 989 1321 1569 5006 5219 5355 6415 6622 6837 6943 7180 7756 7986 8505 8570 8998 9200 9476 9497 9594 9747 10791 11163 12396 14668 16140 17388 18184 18186 101409 104979 105177 105406 105760 108233 109210 109841 112248 113300 117709 118633 121373 121754 122730 123457 123488 125521 126969 129749 130152 131922 132468 135091 136635 136978 137296 137771 137923 138528 138688 139599 139967 141506 142285 142648 142947 143128 143572 143730 143975 144941 900422')"
	step 'seed with READs beyond the pool' build/gcc/lrsim --seeds 2606
	step 'one put on a channel of the relay' build/gcc/lrsim --relay "$(pick 10g-300km-loss1 all)"
	step 'seeds under asan+ubsan' build/gcc-asan/lrsim --seeds "$(seeds 15 500)" --jobs "$jobs"
	step '1,000 QPs, equal QPNs, PSN 0' build/gcc/lrsim --many-qps 1000
	rates
	beside full build/gcc/lrsim --full 400g-1000km-4096-loss1
	beside crowd build/gcc/lrsim --crowd "$(pick short all)"
	beside dead build/gcc/lrsim --fair "$(pick dead-near all)"
	step 'incast: 256 QPs into one port' build/gcc/lrsim --incast
	step 'a beginning without help' build/gcc/lrsim --begin all
	step 'dead flows: what others keep' joined dead
	step 'a WAN cut for 10 s: who lives' build/gcc/lrsim --cut all
	step 'READs over 300 km' build/gcc/lrsim --reads 300km-4qp
	step 'READs over 1000 km' build/gcc/lrsim --reads 1000km-8qp
	step 'READs with the memory of Size=auto' build/gcc/lrsim --reads 10g-300km-16qp
	step 'READs larger than the pool' build/gcc/lrsim --reads larger-than-pool
	step 'a thousand QPs, little memory' joined crowd
	step 'full arena: back within 2 RTT' build/gcc/lrsim --full-arena
	step 'headroom holds, and not with less' build/gcc/lrsim --pause-link
	step 'hostile hosts cost the others little' build/gcc/lrsim --attack
	step '400G x 1000 km, 1 % loss' joined full
	beside frozen build/gcc/lrsim --frozen
	[ -n "$FULL" ] || beside fec build/gcc/lrsim --fec slow-msgs-1000km-1
	step 'deliberate bugs name their violations' faults_named
	step 'a bug found by another rule is missed' missed_by_its_rule
	# The faults that few seeds find; FULL: all faults, see lrsim --faults.
	if [ -n "$FULL" ]; then
		step 'every deliberate bug' build/gcc/lrsim --fault-table --seeds 1-1500 --jobs "$jobs"
	else
		for fault in ack_too_far wrong_msn mispair stale_incarnation past_read barrier_off \
			far_as_near delivered_again nak_repeated probe_together; do
			step "deliberate bug: $fault" build/gcc/lrsim --seeds 1-200 --jobs "$jobs" --fault $fault --expect-failure
		done
	fi
	step 'a frozen host: what others keep' joined frozen
	if [ -z "$FULL" ]; then
		step 'FEC=auto, bursts, an idle line' build/gcc/lrsim --fec auto-burst8-load1
		step 'FEC=auto, a slow line, messages' joined fec
		step 'FEC=auto, a slow line, full' build/gcc/lrsim --fec slow-full-1000km-1
	else
		each_run fec 'FEC'
		each_run full 'full scale'
	fi
	[ -z "$FULL" ] || step 'latency over distance' build/gcc/lrsim --latency
}

fuzz() {
	step 'fuzzers' make fuzz SECONDS="$(pick 6 300)"
}

# The stages beside netns (lint, sim) get the processors' idle time (SCHED_IDLE) as soon as only files are left that wait and
# measure neither time nor rate. The simulator's time is virtual.
netns() {
	local go=$PWD/$logs/only_waiting
	rm -f "$go"
	# shellcheck disable=SC2086
	[ -z "$idle" ] || beside idle once_there "$go" chrt --idle 0 tests/run.sh $idle
	ends=$counted step 'namespaces' env O=build/gcc FULL="$FULL" ONLY_WAITING="$go" tests/netns/run.sh
	touch "$go"
	[ -z "$idle" ] || adopt_idle
}

# once_there FILE COMMAND...: locks FILE and runs COMMAND as soon as FILE exists. Not at all, if this shell ends first.
once_there() {
	until [ -e "$1" ]; do
		sleep 0.5
		kill -0 $$ || return
	done
	exec flock --no-fork "$@"
}

adopt_idle() {
	local status
	wait "${beside_pid[idle]}"
	status=$?
	unset 'beside_pid[idle]'
	say "beside namespaces: $idle"
	adopt "${idle// /, }" "$logs/beside_idle" $status
	table+=$(sed -nE 's/^[a-z]+ +[0-9]+ s of .*/&, beside netns/p' "$logs/beside_idle" | grep -v ^total)$'\n'
}

# The real daemons under the sanitizers: a sanitizer's report or an unclean end fails the test.
sanitize() {
	ends=$counted step 'daemons, tsan, 2 and 3 workers' env LAB_BIN="$PWD/build/gcc-tsan" O=build/gcc \
		tests/netns/run.sh paths manage seal $(pick "" pause)
	ends=$counted step 'daemons, asan+ubsan' env LAB_BIN="$PWD/build/gcc-asan" O=build/gcc tests/netns/run.sh promise link relay
}

vm() {
	local ends=$counted
	if [ -n "$FULL" ]; then
		step 'guests, all programs' tests/vm/run.sh --full --build build/gcc
		[ ! -e build/gcc/plugins/longreach-dpdk.so ] ||
			step 'guests on vhost-user ports' tests/vm/run.sh --full --engine vhost --build build/gcc
		step 'guests, acceptance' tests/vm/run.sh --accept --build build/gcc
	else
		grave='[1-9][0-9]* wrong|a wrong|not there|died|killed|early' \
			step 'guests' tests/vm/run.sh --quick --build build/gcc
	fi
}

declare -A budget=([build]=240 [unit]=110 [lint]=60 [sim]=130 [fuzz]=60 [netns]=740 [sanitize]=120 [vm]=130)
[ $# -gt 0 ] || set -- build unit lint sim fuzz netns sanitize vm
idle=
for stage; do
	# The stages that run beside netns. The long simulator is not one of them.
	if [[ $stage = lint || $stage = sim && -z "$FULL" ]] && [[ " $* " = *" $stage "*"netns "* ]]; then
		idle+="${idle:+ }$stage"
		continue
	fi
	start=$SECONDS
	say "$stage (budget ${budget[$stage]} s)"
	$stage
	table+=$(printf '%-8s %6d s of %4d s' "$stage" $((SECONDS - start)) "${budget[$stage]}")$'\n'
done
say 'time'
printf '%s' "$table"
printf 'total    %6d s of 1450 s\n\n' "$SECONDS"
if [ -n "$FULL" ] && [ -f $logs/every_deliberate_bug.log ]; then
	say 'deliberate bugs: what finds them, after how many seeds'
	cat $logs/every_deliberate_bug.log
fi
verdict
