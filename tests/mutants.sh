#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# mutants.sh - makes small changes to the product's lines, one at a time, and checks whether a test fails. `make mutants`.
#
#   tests/mutants.sh N [SEED [FOLDER...]]      N changes, in the order given by SEED; only in these folders
#   CHANGES=FILE tests/mutants.sh N            the first N of FILE, whose lines are those of `mutate list`
#
# build/mutants/alive has the survivors, for another run.
# Each change is tested in a copy of the tree (build/mutants):
#   same       the object file does not change
#   killed     a unit test that runs the line fails, does not end, or dies; or 60 seeds of the simulator, for proxy/
#   explained  tests/mutants.known has the change, with the reason why no test can or need find it
#   unrun      no unit test runs the line, and the simulator does not fail
#   survived   tests run the line and none fails
# A test that fails on the unchanged code is named and left out. The last line counts the verdicts.
# Exit status: 1 if more than 2 % of the changes that are neither same nor explained survive.
set -euo pipefail
cd "$(dirname "$0")/.."
unset MAKEFLAGS
n=${1:?usage: tests/mutants.sh N [SEED [FOLDER...]]}
seed=${2:-1}
shift $(($# > 2 ? 2 : $#))
folders=("$@")
[ ${#folders[@]} -gt 0 ] || folders=(proxy seal headroom plan daemon copy)
work=build/mutants tree=build/mutants/tree
known=tests/mutants.known
limit_s=60 # for a test; the slowest takes 5 s
seeds_limit_s=600

# --- the unchanged tree: a copy, its unit tests, and the lines that each of them runs ---
mkdir -p $tree
git ls-files | rsync -a --files-from=- ./ $tree/
# A source that an interrupted run had changed is older than its object now.
[ ! -s $work/changing ] || touch "$tree/$(cat $work/changing)"
make -s -j"$(nproc)" build/gcc/tools/mutate O=build/gcc >/dev/null
# test_bounds, test_kill and test_kill_far have their own build of the core; the simulator's seeds cover it.
unit_tests() { git ls-files 'tests/unit/test_*.c' | sed 's|.*/\(.*\)\.c|\1|; /^test_\(bounds\|kill\|kill_far\)$/d'; }
# dies SECONDS COMMAND...: true if the command fails or does not end in time.
dies() { ! timeout "$1" "${@:2}" >/dev/null 2>&1; }
make_in() { make -s -C $tree O=build/m LTO= OPT='-O1 -g1' CFLAGS=-w "$@"; }
echo "mutants: building the tests as they are"
make_in -j"$(nproc)" sim-bin $(unit_tests | sed 's|^|build/m/unit/|') >/dev/null
cover=$work/cover
if [ ! -e $cover/done ] || [ -n "$(find proxy seal headroom plan daemon copy tests/unit -newer $cover/done -name '*.[ch]' | head -1)" ]; then
	echo "mutants: which lines each test runs"
	rm -rf $cover && mkdir -p $cover
	make -s -C $tree O=build/c LTO= OPT='-O0 -g1' CFLAGS='--coverage -w' LDFLAGS=--coverage -j"$(nproc)" \
		$(unit_tests | sed 's|^|build/c/unit/|') >/dev/null
	# lines_of TEST COVER STRIP TREE: FILE:LINE of each line that the test runs, in COVER/TEST.lines
	lines_of() {
		local dir=$2/$1.d
		mkdir -p "$dir"
		GCOV_PREFIX=$dir GCOV_PREFIX_STRIP=$3 timeout 60 "$4/build/c/unit/$1" >/dev/null 2>&1 || true
		(cd "$dir" && find . -name '*.gcda') | while read -r d; do
			ln -sf "$4/build/c/${d%.gcda}.gcno" "$dir/${d%.gcda}.gcno"
			(cd "$4" && gcov -t "$dir/$d" 2>/dev/null) || true
		done | awk -F: '$3 == "Source" { file = $4 } $1 ~ /[0-9]/ { gsub(/ /, "", $2); print file ":" $2 }' |
			sort -u >"$2/$1.lines"
		rm -rf "$dir"
	}
	export -f lines_of
	unit_tests |
		xargs -P "$(nproc)" -I{} bash -c 'lines_of "$@"' _ {} "$PWD/$cover" \
			"$(tr -cd / <<<"$PWD/$tree/build/c" | wc -c)" "$PWD/$tree"
	for t in $(unit_tests); do
		! (cd $tree && dies $limit_s build/m/unit/"$t") || { echo "mutants: left out, as it fails as it is: $t" && rm $cover/"$t".lines; }
	done
	touch $cover/done
fi
[ -s $cover/test_near.lines ] || { echo "mutants: no coverage was written" >&2; exit 1; }

# --- one change ---
# tests_of FILE LINE: the tests that run this line, the one with the file's name first, then those that run the fewest lines.
tests_of() {
	local own
	own=test_$(basename "$1" .c)
	grep -lxF "$1:$2" $cover/*.lines | xargs -r wc -l | sed '/ total$/d' |
		awk -v own="$own" '{ sub(".*/", "", $2); sub(/\.lines$/, "", $2); print ($2 == own ? 0 : $1), $2 }' |
		sort -n | cut -d' ' -f2
}

# same FILE: true if the change does not alter the object.
same() {
	local top out=$PWD/$work
	for top in . $tree; do
		(cd $top && gcc -std=gnu17 -O2 -I. -w -c -o "$out/$([ $top = . ] && echo before || echo after).o" "$1") 2>/dev/null ||
			return 2
	done
	cmp -s $work/before.o $work/after.o
}

# judge FILE TESTS: prints the verdict, one word.
judge() {
	local file=$1 t status=0
	same "$file" || status=$?
	[ $status != 2 ] || { echo unbuilt; return; }
	[ $status != 0 ] || { echo same; return; }
	for t in $2; do
		make_in "build/m/unit/$t" >/dev/null 2>&1 || { echo unbuilt; return; }
		! (cd $tree && dies $limit_s build/m/unit/"$t") || { echo killed; return; }
	done
	if [[ $file == proxy/* ]]; then
		make_in sim-bin >/dev/null 2>&1 || { echo unbuilt; return; }
		! (cd $tree && dies $seeds_limit_s build/m/lrsim --seeds 1-60 --jobs "$(nproc)") || { echo killed; return; }
	fi
	if [ -n "$2" ]; then echo survived; else echo unrun; fi
}

declare -A count=()
judged=0
mapfile -t files < <(for f in "${folders[@]}"; do git ls-files "$f/*.c"; done)
changes() { if [ -n "${CHANGES:-}" ]; then cat "$CHANGES"; else build/gcc/tools/mutate list "$seed" "${files[@]}"; fi; }
changes >$work/changes
: >$work/alive
while IFS=$'\t' read -r file line column length new <&3 && [ $judged -lt "$n" ]; do
	build/gcc/tools/mutate apply "$file" "$line" "$column" "$length" "$new" >$work/changed.c
	echo "$file" >$work/changing
	cp $work/changed.c $tree/"$file"
	was=$(sed -n "${line}p" "$file") is=$(sed -n "${line}p" $work/changed.c)
	covering=$(tests_of "$file" "$line" || true)
	verdict=$(judge "$file" "$covering")
	cp "$file" $tree/"$file"
	[ "$verdict" != unbuilt ] || continue
	case $verdict in survived | unrun)
		! grep -qxF "$file: ${was#"${was%%[!$'\t']*}"} -> ${is#"${is%%[!$'\t']*}"}" <(sed 's/^#.*//; s/ *## .*//' $known) ||
			verdict=explained ;;
	esac
	judged=$((judged + 1))
	count[$verdict]=$((${count[$verdict]:-0} + 1))
	case $verdict in survived | unrun)
		printf '%s\t%s\t%s\t%s\t%s\n' "$file" "$line" "$column" "$length" "$new" >>$work/alive
		printf '%s %s:%s: %s -> %s\n' "$verdict" "$file" "$line" "${was#"${was%%[!$'\t']*}"}" "${is#"${is%%[!$'\t']*}"}" ;;
	esac
	[ $((judged % 20)) != 0 ] || printf 'mutants: %d of %d, %d s\n' $judged "$n" $SECONDS
done 3<$work/changes

alive=$((${count[survived]:-0} + ${count[unrun]:-0}))
all=$((judged - ${count[same]:-0} - ${count[explained]:-0}))
printf 'mutants: %d changes, seed %s: %d same, %d explained, %d killed, %d survived, %d not run by a unit test; %d of %d live\n' \
	$judged "$seed" "${count[same]:-0}" "${count[explained]:-0}" "${count[killed]:-0}" "${count[survived]:-0}" \
	"${count[unrun]:-0}" $alive $all
[ $((alive * 100)) -le $((all * 2)) ]
