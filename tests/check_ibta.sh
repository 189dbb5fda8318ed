#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check_ibta.sh - checks that the files, functions, tests and compliance numbers of docs/IBTA.md exist. `make check-ibta`.
#
#   tests/check_ibta.sh [PAGE]
#
# A rule is a row of five columns. In the fourth a file stands in front of its functions. In the fifth a name is a unit
# test (noun__case), a stage of the guests (--name), a script (test_X.sh) or a violation of the simulator.
set -euo pipefail
page=$(realpath "${1:-$(dirname "$0")/../docs/IBTA.md}")
cd "$(dirname "$0")/.."
bad=0 rules=0 names=0
tests=$(grep -ohE 'TEST\([a-z0-9_]+|cmocka_unit_test[a-z_]*\([a-z0-9_]+' tests/unit/test_*.c | sed 's/.*(//')
# Violations of the simulator: whole strings of its sources.
violations=$(grep -hoE '"[a-z]+(-[a-z]+)*"' tests/sim/*.c | tr -d '"' | sort -u)

wrong() { # row what
	printf 'check-ibta: %s\n    in the row "%s"\n' "$2" "$1" >&2
	bad=1
}
# names_of COLUMN: the words between backquotes.
names_of() {
	local parts
	IFS='`' read -ra parts <<<"$1"
	for ((i = 1; i < ${#parts[@]}; i += 2)); do echo "${parts[i]}"; done
}
one_of() { [[ $'\n'$1$'\n' == *$'\n'"$2"$'\n'* ]]; }

# defined FILE NAME: FILE has a function definition at the left margin, or a macro, of that name.
defined() { grep -qE "^([a-z].*[ *])?$2\(.*[^;]$|^#define $2\(" "$1"; }

code() { # row column
	local name file=
	for name in $(names_of "$2"); do
		names=$((names + 1))
		case $name in
		*/*.[ch])
			file=$name
			[ -f "$file" ] || { wrong "$1" "there is no file $file" && file=; } ;;
		*'()')
			[ -n "$file" ] && defined "$file" "${name%()}" || wrong "$1" "${file:-no file in front of it} has no function $name" ;;
		*)
			[ -n "$file" ] && grep -qw -- "$name" "$file" || wrong "$1" "${file:-no file in front of it} has no $name" ;;
		esac
	done
	[ -n "$file" ] || wrong "$1" "no code is named"
}

checks() { # row column
	local name any=
	for name in $(names_of "$2"); do
		any=1 names=$((names + 1))
		case $name in
		*__*) one_of "$tests" "$name" || wrong "$1" "there is no unit test $name" ;;
		--*) grep -qE -- "^	  $name " tests/vm/run.sh || wrong "$1" "the guests have no stage $name" ;;
		test_*.sh) [ -f tests/netns/"$name" ] || wrong "$1" "there is no tests/netns/$name" ;;
		*) one_of "$violations" "$name" || wrong "$1" "the simulator has no violation $name" ;;
		esac
	done
	[ -n "$any" ] || [[ $2 == *none* ]] || wrong "$1" "no test is named"
}

sources=$(sed '/^## /,$d' "$page")
while IFS='|' read -r _ rule standard _ where by rest; do
	rules=$((rules + 1))
	[ -z "${rest// /}" ] && [ -n "${by// /}" ] || { wrong "$rule" "it has not five columns" && continue; }
	code "$rule" "$where"
	checks "$rule" "$by"
	for number in $(grep -oE '\b(C|o|CA|oA)[0-9]+-[0-9]+' <<<"$rule$standard" || true); do
		grep -qE "\b$number\b" <<<"$sources" || wrong "$rule" "no source is named for $number"
	done
done < <(sed -n '/^## /,$p' "$page" | grep '^| ' | grep -v '^| rule ')
[ $rules -ge 25 ] || { echo "check-ibta: only $rules rules found" >&2 && bad=1; }
[ $bad = 0 ] && echo "check-ibta: $rules rules, $names names in them"
exit $bad
