#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# coverage.sh - lines of each folder that the unit tests and 200 seeds of the simulator run: `make coverage`.
#
#   tests/coverage.sh BUILD      a build with --coverage whose tests have all run
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:?usage: tests/coverage.sh BUILD}

# filename,line_total,line_covered,...
gcovr --csv --gcov-ignore-parse-errors --filter proxy/ --filter seal/ --filter headroom/ --filter plan/ --filter daemon/ \
	-j "$(nproc)" "$build" 2>"$build/gcovr.log" | awk -F, '
	NR > 1 {
		folder = $1
		sub("/[^/]*$", "", folder)
		total[folder] += $2
		covered[folder] += $3
		t += $2
		c += $3
	}
	END {
		for (f in total)
			printf "%-20s %6d of %6d lines  %5.1f %%\n", f, covered[f], total[f], 100 * covered[f] / total[f] | "sort"
		close("sort")
		if (t == 0)
			exit 1
		printf "%-20s %6d of %6d lines  %5.1f %%\n", "all", c, t, 100 * c / t
	}'
