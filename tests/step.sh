# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# step.sh - one verdict per command, for run.sh, which sources it. tests/harness.sh tests it.
#
# Needs: $logs, a directory. Leaves: $passed, $failed, $red (what failed and why), $remarks (what was skipped and why,
# what failed once and then passed).

passed=0 failed=0 red='' remarks=''

# Set before a step: what the last line of a command must look like that tells of its tests ("": its status is enough),
# and what its failures must not say for it to have a second try ("": none).
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
	# Not red, but somebody should look at it.
	local remark
	while read -r remark; do
		echo "$remark"
		remarks+="$name: $remark"$'\n'
	done < <(grep -aE '^(unsteady|skipped): ' "$log" | sort -u)
}

# sound LOG COMMAND...: it ended well, and with its own last words, if it has such.
sound() {
	local log=$1
	shift
	"$@" >"$log" 2>&1 || return
	[ -z "$ends" ] || grep -aqE "$ends" "$log" || {
		echo "FAIL ended with status 0 and without '$ends'" >>"$log"
		return 1
	}
}

# again LOG COMMAND...: the second try of a step that may have one, as the guests are not run for seconds when this
# machine's processors are others' as well. What it may have failed by is one test or two that ran and say what was wrong:
# a run that did not come to its end has no second try.
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

# reasons LOG N: the lines of a log that say what failed, each with the N lines that follow and explain it.
reasons() {
	grep -aE -A"$2" '(^|\] )FAIL |FAILED|[Ee]rror:|Sanitizer|violation:|^not ok' "$1" | head -60
}

# adopt NAME LOG STATUS: the verdicts of a stage that had a shell of its own beside other stages, with its output in LOG.
# One that has not come to its end, or ended with another status than its verdicts say, is red.
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

# The end: what was remarked, what was red, how many. True if nothing was red and something was tested.
verdict() {
	[ -z "$remarks" ] || printf 'skipped or unsteady:\n%s\n' "$remarks"
	[ -z "$red" ] || printf 'red:\n%s\n' "$red"
	printf '%d passed, %d failed\n' "$passed" "$failed"
	[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}
