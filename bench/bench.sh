# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bench.sh - verdicts of benchmarks on figures with a limit. To be sourced.
#
# verdict() prints a verdict at once and appends it to the file $BENCH_VERDICTS; run.sh shows all verdicts at the end. A line of
# the file is: benchmark, what, figure, limit, verdict, separated by tabs. A figure that could not be measured is neither a
# failure nor a success: its verdict is "-" with the reason.

: "${BENCH_VERDICTS:=/dev/null}"
LAB_FEC=auto # the default; tests turn FEC off
BENCH_NAME=$(basename "${0%.sh}")

# A busy machine makes figures worthless. The check reads the idle time of one second, because the load average lags by a
# minute.
say_if_busy() {
	{ head -n 1 /proc/stat && sleep 1 && head -n 1 /proc/stat; } | awk '
		{ idle = $5 + $6 - idle; all = $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9 - all }
		END { if (idle < 0.8 * all) printf "THE MACHINE IS BUSY, %.0f %% of its time: the figures say nothing\n",
			100 - 100 * idle / all }'
}

verdict() { # what figure '<=|>=|<|>' limit
	local mark=short
	# awk takes nan and inf for names of empty variables.
	[[ $2 =~ ^-?[0-9.]+([eE][-+]?[0-9]+)?$ ]] && awk "BEGIN { exit !($2 $3 $4) }" && mark=PASS
	printf '  %-66s %9s  (%s %s)  %s\n' "$1" "$2" "$3" "$4" $mark
	printf '%s\t%s\t%s\t%s\t%s\n' "$BENCH_NAME" "$1" "$2" "$3 $4" $mark >>"$BENCH_VERDICTS"
}

no_verdict() { # what why
	printf '  %-66s %9s  %s\n' "$1" - "$2"
	printf '%s\t%s\t%s\t%s\t%s\n' "$BENCH_NAME" "$1" - "$2" - >>"$BENCH_VERDICTS"
}
