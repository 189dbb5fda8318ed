# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# step.sh - one verdict per command, for run.sh, which sources it. tests/harness.sh tests it.
#
# Needs: $logs, a directory. Leaves: $passed, $failed, $red (failures and their reasons), $remarks (skipped steps and their
# reasons, steps that failed once and then passed).

passed=0 failed=0 red='' remarks=''

# Set before a step: a pattern for the last line of a command that counts tests ("": its status is enough), and a pattern that
# its failures must not match for a second try ("": no second try).
ends=''
grave=''
summary='passed, |faults, |PASSED|seeds,|calls nothing|violations|goodput|of the rate|rebuilt;'

# step NAME COMMAND...: one verdict. Output goes to a log, its last lines are shown when it fails.
step() {
	local name=$1 log start=$SECONDS
	shift
	log=$logs/${name//[^a-zA-Z0-9]/_}.log
	if sound "$log" "$@" || again "$log" "$@"; then
		passed=$((passed + 1))
		printf 'ok    %-34s %4d s   %s\n' "$name" $((SECONDS - start)) \
			"$(grep -aE "$summary" "$log" | tail -1 | cut -c1-110)"
	else
		failed=$((failed + 1))
		printf 'FAIL  %-34s %4d s   see %s\n' "$name" $((SECONDS - start)) "$log"
		red+=$(printf '%s:' "$name"; reasons "$log" 2)$'\n'
		reasons "$log" 12 | grep . || tail -40 "$log"
	fi
	# Not red, but worth a look.
	local remark
	while read -r remark; do
		echo "$remark"
		remarks+="$name: $remark"$'\n'
	done < <(grep -aE '^(unsteady|skipped): ' "$log" | sort -u)
}

# sound LOG COMMAND...: true if the command succeeded, and its last line matches the pattern, if one is set.
sound() {
	local log=$1
	shift
	"$@" >"$log" 2>&1 || return
	[ -z "$ends" ] || grep -aqE "$ends" "$log" || {
		echo "FAIL ended with status 0 and without '$ends'" >>"$log"
		return 1
	}
}

# again LOG COMMAND...: the second try of a step that may have one: on shared processors guests sometimes do not run for seconds.
# A second try needs one or two failed tests with their reasons: a run that did not come to its end has none.
again() {
	local log=$1 fails
	shift
	[ -n "$grave" ] && grep -aqE '^[0-9]+ passed, [0-9]+ failed' "$log" || return
	fails=$(grep -ac ' FAIL ' "$log")
	[ "$fails" -ge 1 ] && [ "$fails" -le 2 ] && ! grep -aqE ' FAIL .*('"$grave"')' "$log" || return
	mv "$log" "$log.first"
	sound "$log" "$@" || return
	sed -n 's/.* FAIL /unsteady: failed once: /p' "$log.first" >>"$log"
}

# reasons LOG N: the lines of failures in a log, each with the N lines behind it.
reasons() {
	grep -aE -A"$2" '(^|\] )FAIL |FAILED|[Ee]rror:|Sanitizer|violation:|^not ok' "$1" | head -60
}

# adopt NAME LOG STATUS: takes over the verdicts of a stage that ran in its own shell beside other stages, with its output in LOG.
# A stage that has not come to its end, or whose status disagrees with its verdicts, is red.
adopt() {
	local name=$1 log=$2 status=$3 p f remark
	sed '/^=== time$/,$d' "$log"
	read -r p f < <(sed -nE '$s/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$log")
	passed=$((passed + p))
	if [ $((p + f)) = 0 ] || [ $((status != 0)) != $((f != 0)) ]; then
		f=$((f + 1))
		echo "FAIL  $name: did not run to its end (status $status), see $log"
		red+="$name: did not run to its end (status $status)"$'\n'
	fi
	failed=$((failed + f))
	red+=$(sed -nE "s/^FAIL +/$name: /p" "$log")
	[ "$f" = 0 ] || red+=$'\n'
	while read -r remark; do
		remarks+="$name: $remark"$'\n'
	done < <(grep -aE '^(unsteady|skipped): ' "$log" | sort -u)
}

# The end: prints remarks, failures and counts. True if nothing was red and something was tested.
verdict() {
	[ -z "$remarks" ] || printf 'skipped or unsteady:\n%s\n' "$remarks"
	[ -z "$red" ] || printf 'red:\n%s\n' "$red"
	printf '%d passed, %d failed\n' "$passed" "$failed"
	[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}
