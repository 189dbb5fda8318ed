# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bench.sh - what a benchmark says of a figure that has a limit. To be sourced.
#
# Verdicts are printed where they fall, and written to the file $BENCH_VERDICTS for run.sh, which shows all of them at
# the end: benchmark, what, figure, limit, verdict, separated by tabs. A figure that could not be measured is no failure
# of what is measured and no success: its verdict is "-" and says why.

: "${BENCH_VERDICTS:=/dev/null}"
LAB_FEC=auto # as it is by itself, where tests want repetition
BENCH_NAME=$(basename "${0%.sh}")

# A busy machine makes figures worthless.
say_if_busy() {
	awk -v n="$(nproc)" '$1 > n / 2 {
		print "THE MACHINE IS BUSY, load " $1 " on " n " processors: the figures say nothing" }' /proc/loadavg
}

verdict() { # what figure '<=|>=|<|>' limit
	local mark=short
	awk "BEGIN { exit !($2 $3 $4) }" && mark=PASS
	printf '  %-66s %9s  (%s %s)  %s\n' "$1" "$2" "$3" "$4" $mark
	printf '%s\t%s\t%s\t%s\t%s\n' "$BENCH_NAME" "$1" "$2" "$3 $4" $mark >>"$BENCH_VERDICTS"
}

no_verdict() { # what why
	printf '  %-66s %9s  %s\n' "$1" - "$2"
	printf '%s\t%s\t%s\t%s\t%s\n' "$BENCH_NAME" "$1" - "$2" - >>"$BENCH_VERDICTS"
}
