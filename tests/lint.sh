#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# lint.sh - static checks: `make lint`, under a minute. Each complaint is a line; a clean tree prints "lint: N files".
#
#   tests/lint.sh [PAGE...]      PAGE: a manual page made by a build
#
#   .clang-tidy and .shellcheckrc configure the checks.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
bad=0
# Names and abbreviations that codespell takes for misspelled words.
words=upto,ect,fo,bu,agains,nd,ans,nulll,iif

# bench/dpdk needs DPDK's headers, which are optional.
tidy() {
	git ls-files 'proxy/*.c' 'seal/*.c' 'headroom/*.c' 'plan/*.c' 'daemon/*.c' 'copy/*.c' 'bench/*.c' 'tests/sim/*.c' \
		'tests/tools/*.c' ':!bench/dpdk' |
		xargs -P "$(nproc)" -n 20 sh -c 'clang-tidy --quiet "$@" -- -std=gnu17 -I. -DPROXY_FAULTS 2>/dev/null' tidy || return
	# fakecuda's cuda.h is for these files only: the daemon tests whether a toolkit has one
	clang-tidy --quiet examples/*.c -- -std=gnu17 -Ilib -idirafter tests/tools/fakecuda/include 2>/dev/null
}

# Manual pages have the version, and no date.
generated=("$@")
pages() {
	local said
	said=$(mandoc -T lint -W warning etc/man/*.[0-9] "${generated[@]}" 2>&1 | grep -v 'missing date')
	[ -z "$said" ] || { echo "$said" >&2 && return 1; }
}

for what in tidy "shellcheck -x -S warning $(git ls-files '*.sh' | tr '\n' ' ')" pages \
	"codespell -L $words $(git ls-files | grep -v 'tests/fuzz/corpus/' | tr '\n' ' ')"; do
	$what || { echo "lint: ${what%% *} complains" >&2 && bad=1; }
done
[ $bad = 0 ] && echo "lint: $(git ls-files | wc -l) files"
exit $bad
