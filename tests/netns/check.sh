# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# check.sh - one line per test. To be sourced after lab.sh.
#
# A test is a function. It succeeds or fails by its status; it may leave a short remark in NOTE and the reason of a
# failure in WHY. A test that has set WHY has failed, whatever its status. Status 77 skips the test, with the reason in WHY or
# NOTE. Results go to standard output and, for run.sh, to the file $CHECK_LOG: ok, skip,
# FAIL, GRAVE, and "end" as the last line. A file without "end" has not run to its end.

CHECK_FAILED=0
: "${CHECK_LOG:=/dev/null}"

check() { # name function arguments...
	local name=$1 start end status verdict=ok failure=FAIL
	shift
	NOTE= WHY=
	start=$(date +%s%N)
	"$@"
	status=$?
	end=$(date +%s%N)
	if [ -n "$LAB_EDGE_BAD" ]; then
		WHY=$LAB_EDGE_BAD
		LAB_EDGE_BAD=
		status=1
		failure=GRAVE
		grep -hE -A12 'Sanitizer|runtime error:' "$LAB_DIR"/[ab]/log | head -40
	fi
	[ $status != 0 ] || [ -z "$WHY" ] || status=1
	if [ $status = 77 ]; then
		verdict=skip
	elif [ $status != 0 ]; then
		verdict=FAIL
		CHECK_FAILED=$((CHECK_FAILED + 1))
	fi
	printf '%-4s %-62s %5.1f s  %s\n' "$verdict" "$name" \
		"$(awk "BEGIN { print ($end - $start) / 1e9 }")" "${WHY:-$NOTE}"
	if [ $verdict = FAIL ]; then
		! check_wrong_data || failure=GRAVE
		verdict=$failure
		check_show
	fi
	[ $verdict != skip ] || name="$name: ${WHY:-${NOTE:-no reason given}}"
	echo "$verdict $name" >>"$CHECK_LOG"
	return 0
}

# True if an endpoint found wrong bytes, order, memory or answers. A busy machine cannot explain such a failure, nor a dead edge
# or a sanitizer's report: run.sh does not repeat such a test.
check_wrong_data() {
	check_numbers .ghost_acks .msn_wrong .resp_malformed .read_wrong .atomic_wrong .packets_wrong .order_wrong \
		.memory_wrong .missing_at_dreq
}

# The same without MSNs.
check_wrong_bytes() {
	check_numbers .ghost_acks .resp_malformed .read_wrong .atomic_wrong .packets_wrong .order_wrong .memory_wrong \
		.missing_at_dreq
}

# True if one of these numbers of an endpoint is not 0.
check_numbers() {
	local f all=$*
	for f in "$LAB_DIR"/*.json; do
		[ ! -s "$f" ] || ! jq -se "map(objects | .here, .there | objects | ${all// /, } | numbers) | add // 0 | . > 0" \
			"$f" >/dev/null 2>&1 || return 0
	done
	return 1
}

# Output that may explain a failure.
check_show() {
	[ ! -s "$LAB_DIR/rcperf.err" ] || sed 's/^/    client: /' "$LAB_DIR/rcperf.err" | tail -5
	[ ! -s "$LAB_DIR/server.log" ] || sed 's/^/    server: /' "$LAB_DIR/server.log" | tail -3
	local f
	for f in "$LAB_DIR"/*.json; do
		# The endpoint's error and its counts.
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

# True if the awk expression is true.
holds() {
	awk "BEGIN { exit !($*) }"
}

check_end() {
	[ ${#LAB_EDGE_PID[@]} = 0 ] || check "the edges end in good order" lab_edges_stop
	echo end >>"$CHECK_LOG"
	[ $CHECK_FAILED = 0 ]
	exit
}

# One test on a 300 km line: the line's settings as words up to "--", then rcperf's options. Uses lab.sh.
across() { # line as words -- rcperf options
	local line=()
	while [ "$1" != -- ]; do
		line+=("$1")
		shift
	done
	shift
	lab_line_set 300 "${line[@]}"
	lab_rcperf "$@" || why "contents, order or count are wrong" || return
	NOTE="$(lab_result '.goodput_gbps * 1000 | round / 1000') Gbit/s"
}
