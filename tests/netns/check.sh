# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# check.sh - one line per test. To be sourced after lab.sh.
#
# A test is a function. It succeeds or fails by its status; it may leave a short remark in NOTE and the reason of a
# failure in WHY. Results go to standard output and, for run.sh, to the file $CHECK_LOG: ok, skip, FAIL, GRAVE.

CHECK_FAILED=0
CHECK_EDGE_BAD= # LAB_EDGE_BAD of the test that is judged
: "${CHECK_LOG:=/dev/null}"

check() { # name function arguments...
	local name=$1 start end status verdict=ok
	shift
	NOTE= WHY=
	start=$(date +%s%N)
	"$@"
	status=$?
	end=$(date +%s%N)
	CHECK_EDGE_BAD=$LAB_EDGE_BAD
	if [ -n "$LAB_EDGE_BAD" ]; then
		WHY=$LAB_EDGE_BAD
		LAB_EDGE_BAD=
		status=1
		grep -hE -A12 'Sanitizer|runtime error:' "$LAB_DIR"/[ab]/log | head -40
	fi
	if [ $status = 77 ]; then
		verdict=skip
	elif [ $status != 0 ]; then
		verdict=FAIL
		CHECK_FAILED=$((CHECK_FAILED + 1))
	fi
	printf '%-4s %-62s %5.1f s  %s\n' "$verdict" "$name" \
		"$(awk "BEGIN { print ($end - $start) / 1e9 }")" "${WHY:-$NOTE}"
	if [ $verdict = FAIL ]; then
		! check_is_grave || verdict=GRAVE
		check_show
	fi
	echo "$verdict $name" >>"$CHECK_LOG"
	return 0
}

# True for what no busy machine can excuse: an edge that died or was told off by a sanitizer, and bytes, order or memory
# that are not what was sent. run.sh does not try such a test again.
check_is_grave() {
	local f
	[ -z "$CHECK_EDGE_BAD" ] || return 0
	for f in "$LAB_DIR"/*.json; do
		[ ! -s "$f" ] || ! jq -se 'map(objects | .here, .there | objects | .order_wrong, .memory_wrong | numbers)
			| add // 0 | . > 0' "$f" >/dev/null 2>&1 || return 0
	done
	return 1
}

# What may explain a failure.
check_show() {
	[ ! -s "$LAB_DIR/rcperf.err" ] || sed 's/^/    client: /' "$LAB_DIR/rcperf.err" | tail -5
	[ ! -s "$LAB_DIR/server.log" ] || sed 's/^/    server: /' "$LAB_DIR/server.log" | tail -3
	local f
	for f in "$LAB_DIR"/*.json; do
		# What the endpoint says was wrong, and what it counted.
		[ ! -s "$f" ] || jq -c 'select(.ok == false) | {failure, peer_failure,
			here: (.here | with_entries(select(.value != 0))), there: (.there | with_entries(select(.value != 0)))}' \
			"$f" 2>/dev/null | sed "s|^|    ${f##*/}: |"
	done
	lab_logs
}

why() { # a sentence: the test fails with it
	WHY=$*
	return 1
}

# True if the awk expression is.
holds() {
	awk "BEGIN { exit !($*) }"
}

check_end() {
	[ ${#LAB_EDGE_PID[@]} = 0 ] || check "the edges end in good order" lab_edges_stop
	[ $CHECK_FAILED = 0 ]
	exit
}
