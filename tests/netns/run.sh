#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - runs the namespace tests: all of them, or those named (test_NAME.sh or NAME). Root.
#
#   O=build/gcc tests/netns/run.sh [NAME...]     FULL=1: also the long ones (a 10 s cut, a dead host)
#                                                ONLY_WAITING=FILE: created when all files that measure time or rate have
#                                                ended; while it is locked, there is no second try
#
# Prints one line per test and at the end the time of each file (NAME:seconds:user+system) and "N passed, N failed". Tests that
# failed in one of two tries and passed in the other are listed as "unsteady", skipped tests with their reason. A file that does
# not run to its end, or has tested nothing, is red: tests/harness.sh tests this with its own files in $LAB_TESTS.

here=${LAB_TESTS:-$(cd "$(dirname "$0")" && pwd)}
log=$(mktemp /tmp/lr-netns.XXXXXX)
trap 'rm -rf "$log" "$log".*' EXIT
trap 'exit 130' INT TERM

files=()
for name in "$@"; do
	name=${name##*/}
	name=${name#test_}
	files+=("$here/test_${name%.sh}.sh")
done
# test_explain.sh takes over a minute, and its faults have side effects that explain may also name on a busy machine.
[ ${#files[@]} -gt 0 ] || for file in "$here"/test_*.sh; do
	[ -n "${FULL:-}" ] || [ "${file##*/}" != test_explain.sh ] || continue
	files+=("$file")
done

run() { # file log: runs it once, verdicts to the log
	local status TIMEFORMAT='%0R:%0U+%0S'
	(time CHECK_LOG=$2 bash "$1" 2>&3) 3>&2 2>"$2.time"
	status=$?
	echo "$(name_of "$1"):$(cat "$2.time")" >>"$log.took"
	[ $status != 130 ] || exit 130
	touch "$2"
	if [ "$(tail -n 1 "$2")" != end ]; then
		aborted "$@" "did not run to its end (status $status)"
	elif ! grep -qE '^(ok|skip|FAIL|GRAVE) ' "$2"; then
		aborted "$@" "has tested nothing"
	elif [ $status != "$(grep -cE -m1 '^(FAIL|GRAVE) ' "$2")" ]; then
		aborted "$@" "ended with status $status, which is not what its tests say"
	fi
	sed -i '/^end$/d' "$2"
}

aborted() { # file log what
	echo "FAIL ${1##*/} $3"
	echo "GRAVE ${1##*/} $3" >>"$2"
}

name_of() {
	local name=${1##*/test_}
	echo "${name%.sh}"
}

# A file with a failed test has one more try, when all others have ended: on two shared processors a program is sometimes not
# run for a second. The first failure is still named. There is no second try for failures that a busy machine cannot explain
# (GRAVE, see check.sh), and none for more than four files. A test is red if it failed both times: a test that fails only in
# the second try has passed in the first.
again=()
first_try_over() { # file
	local first
	first=$log.$(name_of "$1")
	if grep -q '^FAIL' "$first" && ! grep -q '^GRAVE' "$first"; then
		again+=("$1")
	else
		cat "$first" >>"$log"
	fi
}

# These files mostly wait and measure no time or rate: they run beside the others, one after the other.
beside=() before=() asleep=()
for file in "${files[@]}"; do
	[ -r "$file" ] || { echo "no such test: $file" >&2; exit 2; }
	case $(name_of "$file") in
	buffer | careless | check_config | close_watch | closed | copy | copy_kills | doctor | dpdk | dpdk_kill | dpdk_wan | dump | examples | \
		explain | gpu | hosts | interfaces | line | links | loss | manage | metrics | multipath | newcomer | owed | page | policy | \
		privsep | promise | reauth | relay | room | seal | stick | top | trace | verbs | watchdog) beside+=("$file") ;;
	quiet) asleep+=("$file") ;; # it only waits for half a minute
	*) before+=("$file") ;;
	esac
done
if [ ${#before[@]} = 0 ]; then
	before=("${beside[@]}" "${asleep[@]}") beside=() asleep=()
fi
first_to_take() { # file
	mkdir "$log.taken.$(name_of "$1")" 2>/dev/null
}
for file in "${beside[@]}"; do
	! first_to_take "$file" || run "$file" "$log.$(name_of "$file")"
done >"$log.beside" 2>&1 &
beside_pid=$!
for file in "${before[@]}"; do
	run "$file" "$log.$(name_of "$file")"
	first_try_over "$file"
done
[ -z "${ONLY_WAITING:-}" ] || touch "$ONLY_WAITING"
for file in "${asleep[@]}"; do
	run "$file" "$log.$(name_of "$file")"
done >"$log.asleep" 2>&1 &
asleep_pid=$!
# Two more lanes run the remaining files from the end: no file needs a processor of its own any more.
take_from_the_end() {
	local i
	for ((i = ${#beside[@]} - 1; i >= 0; i--)); do
		! first_to_take "${beside[i]}" || run "${beside[i]}" "$log.$(name_of "${beside[i]}")"
	done
}
take_from_the_end >"$log.end" 2>&1 &
end_pid=$!
take_from_the_end
wait $beside_pid $asleep_pid $end_pid
cat "$log.beside" "$log.asleep" "$log.end"
for file in "${beside[@]}" "${asleep[@]}"; do
	first_try_over "$file"
done
[ ${#again[@]} = 0 ] || [ -z "${ONLY_WAITING:-}" ] || flock "$ONLY_WAITING" true
for file in "${again[@]}"; do
	first=$log.$(name_of "$file")
	if [ ${#again[@]} -gt 4 ]; then
		cat "$first" >>"$log"
		continue
	fi
	echo "again: ${file##*/}"
	run "$file" "$log.again"
	# "once": failed in one try and passed in the other. A test that failed and never passed stays FAIL.
	awk '{ name = substr($0, index($0, " ")) }
		NR == FNR { first[name] = $1; next }
		$1 == "ok" && first[name] == "FAIL" || $1 == "FAIL" && first[name] == "ok" { $1 = "once" }
		$1 != "skip" { again[name] }
		{ print }
		END { for (name in first) if (first[name] == "FAIL" && !(name in again)) print "FAIL" name }' \
		"$first" "$log.again" >>"$log"
	rm "$log.again"
done
sed -n 's/^once/unsteady: failed once:/p; s/^skip /skipped: /p' "$log"
unsteady=$(grep -c '^once' "$log")
echo "seconds: $(paste -sd' ' "$log.took")"
passed=$(grep -cE '^(ok|once)' "$log")
failed=$(grep -cE '^(FAIL|GRAVE)' "$log")
skipped=$(grep -c '^skip' "$log")
echo "$passed passed, $failed failed$([ "$skipped" = 0 ] || echo ", $skipped skipped")$(
	[ $unsteady = 0 ] || echo ", $unsteady unsteady")"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
