#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# harness.sh - tests the test scripts: netns/run.sh (with netns/check.sh) and step.sh must report stubs that die, print nothing,
# skip or go on after a failure; check_ibta.sh must report dangling names, check_manual.sh names that the manual lacks. Needs no
# privileges; takes some seconds.
set -u
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d /tmp/lr-harness.XXXXXX)
trap 'rm -rf "$work"' EXIT
tried=0 wrong=0

judge() { # name status: status of the last condition
	tried=$((tried + 1))
	if [ "$2" = 0 ]; then
		printf 'ok    %s\n' "$1"
	else
		wrong=$((wrong + 1))
		printf 'FAIL  %s\n' "$1"
		sed 's/^/    /' "$work/out"
	fi
}

# --- netns/run.sh: files of tests ---

stub() { # name: its lines from standard input
	{
		printf '. %q\n' "$here/netns/lab.sh" "$here/netns/check.sh"
		cat
	} >"$work/test_$1.sh"
}

stub good <<-'END'
	check "good: the one test" true
	check_end
END
stub bad <<-'END'
	check "bad: the one test" false
	check_end
END
stub died <<-'END'
	check "died: the first test" true
	lab_die "no namespace"
END
stub left <<-'END'
	check "left: the first test" true
	exit 0
END
stub died_within <<-'END'
	check "died within: the one test" lab_die "the line refuses"
	check_end
END
stub killed <<-'END'
	check "killed: the first test" true
	kill -KILL $$
END
stub empty <<-'END'
	check_end
END
stub skips <<-'END'
	no_vlan() { NOTE="this kernel has no VLAN devices"; return 77; }
	check "skips: a good test" true
	check "skips: hosts in a VLAN" no_vlan
	check_end
END
stub goes_on <<-'END'
	two() { false || why "the first half is wrong"; true; }
	check "goes on: a test of two halves" two
	check_end
END
stub second_try <<-'END'
	once() { [ -e "$STUB_STATE" ] || { touch "$STUB_STATE"; return 1; }; }
	check "second try: passes then" once
	check_end
END
stub dies_second <<-'END'
	once() { [ ! -e "$STUB_STATE" ] || lab_die "in the second try"; touch "$STUB_STATE"; return 1; }
	check "dies in the second try" once
	check_end
END
stub status <<-'END'
	check "status: a good test" true
	echo end >>"$CHECK_LOG"
	exit 1
END

# files RED|GREEN PATTERN FILE...: the result of these files together, and a pattern that the output must match.
files() {
	local want=$1 pattern=$2 status
	shift 2
	rm -f "$work/state"
	STUB_STATE=$work/state LAB_TESTS=$work bash "$here/netns/run.sh" "$@" >"$work/out" 2>&1
	status=$?
	[ "$([ $status = 0 ] && echo GREEN || echo RED)" = "$want" ] && grep -qE -- "$pattern" "$work/out"
	judge "files $*: $want, '$pattern'" $?
}

files GREEN '^1 passed, 0 failed$' good
files RED '^0 passed, 1 failed$' bad
files RED '^FAIL test_died.sh did not run to its end' died
files RED ', 3 failed$' died left died_within
files RED '^FAIL test_left.sh did not run to its end' good left
files RED '^FAIL test_killed.sh did not run to its end' good killed
files RED '^FAIL test_empty.sh has tested nothing' good empty
files GREEN '^skipped: skips: hosts in a VLAN: this kernel has no VLAN devices$' skips
files GREEN '^2 passed, 0 failed, 1 skipped$' good skips
files RED 'the first half is wrong' good goes_on
files GREEN '^unsteady: failed once: second try: passes then$' second_try
files RED '^FAIL test_dies_second.sh did not run to its end' good dies_second
files RED 'which is not what its tests say' status

# --- step.sh: commands ---

says() { # status line...
	printf '%s\n' "${@:2}"
	return "$1"
}

# A command's status and output at its first and at all later calls.
by_turns() { # status1 text1 status2 text2
	echo called >>"$work/calls"
	[ "$(wc -l <"$work/calls")" = 1 ] || shift 2
	printf '%b\n' "$2"
	return "$1"
}

# steps RED|GREEN CALLS PATTERN COMMAND...: the result of a step, the number of its command's runs ("": any), its output.
steps() {
	local want=$1 calls=$2 pattern=$3
	shift 3
	: >"$work/calls"
	(
		logs=$work
		. "$here/step.sh"
		ends='^[1-9][0-9]* passed, 0 failed' grave='a wrong|died'
		step stub "$@"
		verdict
	) >"$work/out" 2>&1
	[ "$([ $? = 0 ] && echo GREEN || echo RED)" = "$want" ] && grep -qE -- "$pattern" "$work/out" &&
		{ [ -z "$calls" ] || [ "$(wc -l <"$work/calls")" = "$calls" ]; }
	judge "step $*: $want, '$pattern'" $?
}

ok='1 passed, 0 failed' fails='[  9s] FAIL  near  cut\n0 passed, 1 failed'
steps GREEN "" "^$ok" says 0 "$ok"
steps RED "" '^FAIL  stub' says 1 "$ok"
steps RED "" "without '" says 0 ""
steps RED "" "without '" says 0 "0 passed, 0 failed"
steps RED "" '^FAIL  stub' bash -c 'kill -KILL $$'
steps GREEN 2 '^stub: unsteady: failed once: *near  cut' by_turns 1 "$fails" 0 "$ok"
steps RED 2 '^FAIL  stub' by_turns 1 "$fails" 1 "$fails"
steps RED 2 '^FAIL  stub' by_turns 1 "$fails" 0 ""
steps RED 1 '^FAIL  stub' by_turns 1 'run.sh: no guests' 0 "$ok"
steps RED 1 '^FAIL  stub' by_turns 1 '[  9s] FAIL  near  cut' 0 "$ok"
steps RED 1 '^FAIL  stub' by_turns 1 '0 passed, 0 failed' 0 "$ok"
steps RED 1 '^FAIL  stub' by_turns 1 '[  9s] FAIL  near  longreachd died\n0 passed, 1 failed' 0 "$ok"
steps GREEN "" '^stub: skipped: hosts in a VLAN: no such devices' says 0 'skipped: hosts in a VLAN: no such devices' "$ok"

# adopted RED|GREEN PATTERN STATUS LINE...: the verdict on a stage with this status and output that ran beside another step.
adopted() {
	local want=$1 pattern=$2 status=$3
	shift 3
	printf '%s\n' "$@" >"$work/stage"
	(
		logs=$work
		. "$here/step.sh"
		step stub true
		adopt sim "$work/stage" "$status"
		verdict
	) >"$work/out" 2>&1
	[ "$([ $? = 0 ] && echo GREEN || echo RED)" = "$want" ] && grep -qE -- "$pattern" "$work/out"
	judge "stage '$*' with status $status: $want, '$pattern'" $?
}

adopted GREEN '^3 passed, 0 failed$' 0 'ok    seeds   9 s' '2 passed, 0 failed'
adopted RED '^sim: seeds +9 s' 1 'FAIL  seeds   9 s' '1 passed, 1 failed'
adopted RED '^2 passed, 1 failed$' 1 'FAIL  seeds   9 s' '1 passed, 1 failed'
adopted RED '^sim: did not run to its end' 0 'ok    seeds   9 s'
adopted RED '^sim: did not run to its end' 0 '0 passed, 0 failed'
adopted RED '^sim: did not run to its end' 1 'ok    seeds   9 s' '2 passed, 0 failed'
adopted RED '^sim: did not run to its end' 0 'FAIL  seeds   9 s' '1 passed, 1 failed'
adopted GREEN '^sim: skipped: no table' 0 'skipped: no table' '2 passed, 0 failed'

# The simulator must begin as soon as only waiting files are left, and not before.
stub rate <<-'END'
	check "rate: nobody is let in yet" test ! -e "$ONLY_WAITING"
	check_end
END
stub seal <<-'END'
	check "seal: the file comes" lab_wait 5 test -e "$ONLY_WAITING"
	check_end
END
rm -f "$work/go"
ONLY_WAITING=$work/go files GREEN '^2 passed, 0 failed$' rate seal
# A second try must wait until the simulator has ended and the lock is free.
stub locked <<-'END'
	through() { [ -e "$STUB_STATE" ]; }
	check "locked: passes when the lock is free" through
	check_end
END
held() {
	flock "$work/go" sh -c 'sleep 3; touch "$0"' "$work/state" &
	ONLY_WAITING=$work/go files GREEN '^unsteady: failed once: locked: passes' locked
	wait
}
rm -f "$work/go"
held

# --- netns/chaos_table.sh: sums of its steps ---

(
	. "$here/netns/chaos_table.sh"
	table_step disk 800 0
	table_step disk 3200 0 late
	table_step disk '' 7 late msn msn
	table_step flush 90 0 unsealed
	table_step flush 70 0 nonsense
	table_step both 100 0 early lost untrue
	table_print 3000
) >"$work/out" 2>&1

# A row: steps ok late lost MSN early unsealed untrue other median longest.
table_says() { # pattern
	tr -s ' ' <"$work/out" | grep -qE -- "$1"
	judge "the table of chaos.sh says '$1'" $?
}

table_says '^disk 3 1 2 0 1 0 0 0 0 800 3200$'
table_says '^flush 2 0 0 0 0 0 1 0 1 70 90$'
table_says '^both 1 0 0 1 0 1 0 1 0 100 100$'
table_says '^all 6 1 2 1 1 1 1 1 1 100 3200$'
table_says '^late after disk, ms: 3200 never$'
table_says '\(7 of them\)'

# --- check_ibta.sh: names in docs/IBTA.md ---

# page RED|GREEN PATTERN FROM TO: result and output for the page with the first FROM replaced by TO.
page() {
	local want=$1 pattern=$2 status text
	text=$(cat "$here/../docs/IBTA.md")
	[[ $text == *"$3"* ]] || wrong=$((wrong + 1)) # FROM is missing: this case would test nothing
	printf '%s\n' "${text/"$3"/"$4"}" >"$work/page.md"
	"$here/check_ibta.sh" "$work/page.md" >"$work/out" 2>&1
	status=$?
	[ "$([ $status = 0 ] && echo GREEN || echo RED)" = "$want" ] && grep -qE -- "$pattern" "$work/out"
	judge "page with '$4' for '$3': $want, '$pattern'" $?
}

page GREEN '^check-ibta: [0-9]+ rules' '# What' '# What'
page RED 'no function build_ick\(\)' '`build_ack()`' '`build_ick()`'
page RED 'ack_tx.c has no function near_ceiling\(\)' '`build_nak()`' '`near_ceiling()`'
page RED 'there is no file proxy/near/ack_rx.c' '`proxy/near/ack_tx.c`' '`proxy/near/ack_rx.c`'
page RED 'there is no unit test near__psn_unwraps' '`near__psn_wraps`' '`near__psn_unwraps`'
page RED 'no violation implied-ack' '`implied-nak`' '`implied-ack`'
page RED 'no stage --akey' '`--rkey`' '`--akey`'
page RED 'no source is named for C9-93' '(C9-92)' '(C9-93)'
page RED 'no test is named' '`implied-nak`, `ack-of-answer`, `near__ceiling_stands_in_front_of_a_read`, `reads__no_ack_names_one_that_the_host_lacks`' 'all of them'
page RED 'not five columns' '| kept |' '|'

# --- check_manual.sh: names that longreach(7) lacks ---

cc -std=gnu17 -I"$here/.." -o "$work/counters_page" "$here/../etc/man/counters_page.c" && "$work/counters_page" >"$work/counters.7" ||
	wrong=$((wrong + 1))

# manual RED|GREEN PATTERN NAME: result and output for longreach(7) without the heading NAME, or unchanged if NAME is empty.
manual() {
	local want=$1 pattern=$2 status
	NAME=${3:+${3% *} \\fB${3##* }\\fR} awk '
		BEGIN { name = ENVIRON["NAME"]; sub(/^ /, "", name) }
		entry && name != "" && index($0, name) { cut += gsub(/\\fB/, "\\fI") }
		{ entry = /^\.TP/; print }
		END { exit name != "" && !cut }' "$here/../etc/man/longreach.7" >"$work/manual.7" || wrong=$((wrong + 1))
	"$here/check_manual.sh" "$work/counters.7" "$work/manual.7" >"$work/out" 2>&1
	status=$?
	[ "$([ $status = 0 ] && echo GREEN || echo RED)" = "$want" ] && grep -qE -- "$pattern" "$work/out"
	judge "longreach(7)${3:+ without '$3'}: $want, '$pattern'" $?
}

manual GREEN '^check-manual: [0-9]+ names$' ''
manual RED 'WRONG, has no entry for flow_rnr_back_pressure$' ' flow_rnr_back_pressure'
manual RED 'WRONG, has no entry for barrier_expired$' ' barrier_expired'
manual RED 'FAILED, has no entry for mispaired$' ' mispaired'
manual RED 'WRONG, has no entry for stuck$' ' stuck'
manual RED 'WRONG, has no entry for path dead$' 'path dead'
manual RED 'WRONG, has no entry for keys due$' 'keys due'
manual RED 'FAULT IT IS, has no entry for wan_reflected$' ' wan_reflected'
manual RED 'has no entry for rules_changed$' ' rules_changed'
grep -v 'silent$' "$work/counters.7" >"$work/fewer.7" # a list that is not found any more
"$here/check_manual.sh" "$work/fewer.7" >"$work/out" 2>&1
[ $? = 1 ] && grep -q 'fewer than 7 WHY A FLOW FAILED' "$work/out"
judge 'check_manual.sh with a list that is too short: RED' $?

echo "$((tried - wrong)) passed, $wrong failed"
[ $wrong = 0 ]
