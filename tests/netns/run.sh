#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - runs the namespace tests: all of them, or those named (test_NAME.sh or NAME). Root.
#
#   O=build/gcc tests/netns/run.sh [NAME...]     FULL=1: also the long ones (a 10 s cut, a dead host)
#
# Prints one line per test and at the end what each file took and "N passed, N failed".

here=$(cd "$(dirname "$0")" && pwd)
log=$(mktemp /tmp/lr-netns.XXXXXX)
export CHECK_LOG=$log
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM

files=()
for name in "$@"; do
	name=${name##*/}
	name=${name#test_}
	files+=("$here/test_${name%.sh}.sh")
done
[ ${#files[@]} -gt 0 ] || files=("$here"/test_*.sh)

took=
for file in "${files[@]}"; do
	[ -r "$file" ] || { echo "no such test: $file" >&2; exit 2; }
	start=$SECONDS
	bash "$file"
	status=$?
	took+=" ${file##*/test_}:$((SECONDS - start))"
	# Tests that end otherwise than by their own verdicts did not run to their end.
	if [ $status -gt 1 ]; then
		echo "FAIL ${file##*/} ended with status $status"
		echo "FAIL ${file##*/}" >>"$log"
	fi
	[ $status != 130 ] || exit 130
done
echo "seconds:${took//.sh:/ }"
passed=$(grep -c '^ok' "$log")
failed=$(grep -c '^FAIL' "$log")
skipped=$(grep -c '^skip' "$log")
echo "$passed passed, $failed failed$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
