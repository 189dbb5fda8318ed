# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# chaos_table.sh - the findings of chaos.sh by step, as one table at the end. To be sourced.
#
# table_step notes one step: its fault, the time until traffic came back after the mending (ms; empty: it did not come back, or
# was not measured), and the kinds of findings. A step may be late and wrong at once, and counts as both.

# Kinds of findings, in the order of the columns, with their titles.
TABLE_KINDS=(late lost msn early unsealed untrue other)
declare -A TABLE_TITLE=(
	[late]=late [lost]=lost [msn]=MSN [early]=early [unsealed]=unsealed [untrue]=untrue [other]=other
)
declare -A TABLE_N=() TABLE_BACK=() TABLE_LATE=()
TABLE_WRONG_MSNS=0

table_add() { # fault column
	TABLE_N[$1.$2]=$((${TABLE_N[$1.$2]:-0} + 1))
	TABLE_N[all.$2]=$((${TABLE_N[all.$2]:-0} + 1))
}

# A kind without a column is a mistake of the caller: it counts as `other`, so that the step does not count as ok.
table_step() { # fault back-ms wrong-MSNs kind...
	local fault=$1 ms=$2 kind kinds
	TABLE_WRONG_MSNS=$((TABLE_WRONG_MSNS + $3))
	kinds=$(printf '%s\n' "${@:4}" | sort -u)
	table_add "$fault" steps
	[ -n "$kinds" ] || table_add "$fault" ok
	for kind in $kinds; do
		[ -n "${TABLE_TITLE[$kind]:-}" ] || kind=other
		table_add "$fault" "$kind"
		[ $kind != late ] || TABLE_LATE[$fault]+=" ${ms:-never}"
	done
	[ -z "$ms" ] || TABLE_BACK[$fault]+="$ms "
}

# The median and the longest of numbers; "- -" of none.
table_spread() {
	[ $# -gt 0 ] || { echo - -; return; }
	printf '%s\n' "$@" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)], v[NR] }'
}

table_row() { # fault name times-in-ms
	local kind median longest
	printf '%-12s %6d %6d' "$2" "${TABLE_N[$1.steps]:-0}" "${TABLE_N[$1.ok]:-0}"
	for kind in "${TABLE_KINDS[@]}"; do
		printf ' %8d' "${TABLE_N[$1.$kind]:-0}"
	done
	# shellcheck disable=SC2086 # a list of numbers
	read -r median longest < <(table_spread $3)
	printf ' %8s %8s\n' "$median" "$longest"
}

table_print() { # limit of `late` in ms
	local kind fault
	echo
	printf '%-12s %6s %6s' fault steps ok
	for kind in "${TABLE_KINDS[@]}"; do
		printf ' %8s' "${TABLE_TITLE[$kind]}"
	done
	printf ' %8s %8s\n' median longest
	for fault in $(printf '%s\n' "${!TABLE_N[@]}" | sed -n 's/^\(.*\)\.steps$/\1/p' | grep -vx all | sort); do
		table_row "$fault" "$fault" "${TABLE_BACK[$fault]:-}"
	done
	table_row all all "${TABLE_BACK[*]}"
	echo "late: traffic back more than $1 ms after the mending; median, longest: of all steps, ms. lost: acknowledged and"
	echo "missing, and no edge names it. MSN: answers with a wrong count ($TABLE_WRONG_MSNS of them). early: a word before its"
	echo "bytes. unsealed: RoCEv2 or payload on the line. untrue: --check did not say it."
	for fault in $(printf '%s\n' "${!TABLE_LATE[@]}" | sort); do
		echo "late after $fault, ms:${TABLE_LATE[$fault]}"
	done
}
