#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check_manual.sh - checks that each named report of the daemon has an entry in longreach(7): events, failures, states, drops,
# and names in brackets in log lines. `make check-manual`.
#
#   tests/check_manual.sh COUNTERS [PAGE]
#
# COUNTERS is longreach-counters(7) of a build, made from the lists of status, metrics and log.
# PAGE is longreach(7). An entry is a paragraph whose heading has the name in bold.
set -euo pipefail
counters=$(realpath "$1")
page=$(realpath "${2:-$(dirname "$0")/../etc/man/longreach.7}")
cd "$(dirname "$0")/.."
bad=0 names=0
wrong='WHEN SOMETHING IS WRONG' failed='WHY A FLOW FAILED' dropped='WHAT IS DROPPED, AND WHOSE FAULT IT IS'

section() { awk -v title=".SH $1" '/^\.SH / { inside = $0 == title } inside' "$2"; } # title file
listed() { section "$1" "$counters" | sed -n 's/^\.B \([a-z0-9_]*\).*/\1/p'; }
headings() { section "$1" "$page" | grep -A1 '^\.TP' | grep -v '^\.TP' || true; }

declare -A entries
for title in "$wrong" "$failed" "$dropped"; do entries[$title]=$(headings "$title"); done

# has TITLE NAME [WORD]: an entry of that section; WORD stands in front of the name.
has() { [[ ${entries[$1]} == *"${3:+$3 }\\fB$2\\fR"* ]]; }

lacks() {
	echo "check-manual: longreach(7), $1, has no entry for ${2}" >&2
	bad=1
}

# each COUNTED TITLE LEAST [WORD]: the names under COUNTED in longreach-counters(7), at least LEAST, have entries under TITLE.
each() {
	local name list
	list=$(listed "$1")
	[ "$(wc -w <<<"$list")" -ge "$3" ] || { echo "check-manual: fewer than $3 $1" >&2 && bad=1; }
	for name in $list; do
		case $name in up | none) continue ;; esac # all is well
		names=$((names + 1))
		has "$2" "$name" "${4:-}" || lacks "$2" "${4:+$4 }$name"
	done
}

each EVENTS "$wrong" 30
each 'WHY A FLOW FAILED' "$failed" 7
each 'STATES OF A LINK' "$wrong" 11
each 'STATES OF A PATH' "$wrong" 3 path
each 'STATES OF REAUTHENTICATION' "$wrong" 4 keys
own=$(grep -rohE --include='*.c' '\[[a-z]+(_[a-z]+)+\]"' daemon | tr -d '[]"' | sort -u)
for name in $(listed 'DROP REASONS') $own; do
	names=$((names + 1))
	has "$wrong" "$name" || has "$dropped" "$name" || lacks "$dropped" "$name"
done
[ $names -ge 110 ] || { echo "check-manual: only $names names" >&2 && bad=1; }
[ $bad = 0 ] && echo "check-manual: $names names"
exit $bad
