#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_fec.sh - FEC per datagram beside a memcpy of it, in the same run: nanoseconds, and instructions counted by callgrind
# (without AVX-512, which callgrind does not know).
O=${O:-build/gcc}
bin=$O/bench/bench_fec
"$bin" || exit 1

count() { # operation, times
	valgrind --tool=callgrind --callgrind-out-file=/dev/null "$bin" "$1" "$2" 2>&1 |
		awk '/Collected/ { print $NF }'
}

[ -z "${QUICK:-}" ] || exit 0

printf '\ninstructions per datagram (rebuild: per group)\n'
for op in copy keep add2 add4 add8 add12 rebuild1 rebuild4 rebuild3; do
	a=$(count $op 100) b=$(count $op 300)
	n=$(((b - a) / 200))
	: "${base:=$n}"
	awk -v op=$op -v n=$n -v base="$base" 'BEGIN { printf "%-10s %8d  %6.2f copies\n", op, n, n / base }'
done
