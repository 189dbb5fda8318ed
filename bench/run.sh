#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - the benchmarks one after the other. Each prints ratios against what it is measured beside.
cd "$(dirname "$0")/.." || exit 2
O=${O:-build/gcc}
export O
status=0
for b in bench/bench_*.sh; do
	[ -x "$b" ] || continue
	printf '\n=== %s\n' "${b##*/}"
	"$b" || status=1
done
for c in bench/bench_*.c; do
	name=$(basename "$c" .c)
	[ -e "bench/$name.sh" ] && continue
	printf '\n=== %s\n' "$name"
	"$O/bench/$name" || status=1
done
exit $status
