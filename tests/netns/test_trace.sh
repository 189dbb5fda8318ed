#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# longreach trace on a line with known rate, length and losses; a trace costs no throughput.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

RATE_MBPS=300
LOSS=0.01

up() {
	LAB_RATE=${RATE_MBPS}M LAB_EXTRA=Link.Distance=300km lab_edges
	lab_link_up
}

trace_of() { # edge file options...
	"$LAB_BIN/longreach" --control "$LAB_DIR/$1/control" trace link --seconds 60 "${@:3}" >"$2" 2>"$LAB_DIR/trace.err" &
	TRACE=$!
}

trace_end() {
	kill "$TRACE"
	wait "$TRACE"
}

column() { # name: its number
	head -1 "$LAB_DIR/trace.csv" | tr ',' '\n' | grep -nx "$1" | cut -d: -f1
}

# Quantile of a column, over rows with deliveries.
quantile() { # column 0..1
	awk -F, -v c="$(column "$1")" -v d="$(column mbit_s)" 'NR > 1 && $d > 1 { print $c }' "$LAB_DIR/trace.csv" |
		sort -g | awk -v q="$2" '{ v[NR] = $1 } END { print v[1 + int(q * (NR - 1))] }'
}

last() { # column
	awk -F, -v c="$(column "$1")" 'END { print $c }' "$LAB_DIR/trace.csv"
}

# The rates of all rows, added up: megabytes.
delivered_mb() {
	awk -F, -v c="$(column mbit_s)" -v t="$(column s)" 'NR > 1 { sum += $c * ($t - before); before = $t }
		END { printf "%.1f", sum / 8 }' "$LAB_DIR/trace.csv"
}

losses_are_traced() { # losses before
	[ "$(last lost)" = $(($(lab_status a '.links[0].counters.wan_lost') - $1)) ]
}

under_loss() {
	local sent lost_before lost mb rcperf_mb pace rtt rows
	trace_of a "$LAB_DIR/trace.csv" --csv
	lab_wait 3 test -s "$LAB_DIR/trace.csv" || why "no trace" || return
	lost_before=$(lab_status a '.links[0].counters.wan_lost')
	sent=$(lab_status a '.links[0].counters.wan_tx_datagrams')
	lab_line_set 300 "loss=$LOSS"
	lab_rcperf --size 65536 --depth 64 --qps 2 --secs 3 || why "contents, order or count are wrong" || return
	lab_line_set 300
	lab_wait 3 losses_are_traced "$lost_before"
	lost=$(($(lab_status a '.links[0].counters.wan_lost') - lost_before))
	sent=$(($(lab_status a '.links[0].counters.wan_tx_datagrams') - sent))
	trace_end || why "trace ended with $?: $(tail -1 "$LAB_DIR/trace.err")" || return
	rows=$(wc -l <"$LAB_DIR/trace.csv") mb=$(delivered_mb) rcperf_mb=$(lab_result '.verified_bytes / 1e6')
	pace=$(quantile pace_mbit_s 0.5) rtt=$(quantile rtt_ms 0)
	NOTE="$rows rows, $mb MB of rcperf's $rcperf_mb, $(quantile mbit_s 0.5) Mbit/s, rtt $rtt ms, $(last lost) lost of $sent"
	[ "$rows" -gt 50 ] || why "too few rows: $NOTE" || return
	[ ! -s "$LAB_DIR/trace.err" ] || why "$(head -1 "$LAB_DIR/trace.err")" || return
	holds "$(last lost) == $lost && $lost > 0.5 * $LOSS * $sent && $lost < 2 * $LOSS * $sent" ||
		why "losses: $NOTE, $lost counted" || return
	holds "$mb > $rcperf_mb && $mb < 1.15 * $rcperf_mb" || why "what was delivered: $NOTE" || return
	holds "$pace > 0.99 * $RATE_MBPS && $pace < 1.01 * $RATE_MBPS" || why "rate: $pace Mbit/s" || return
	holds "$(quantile mbit_s 0.5) < 1.05 * $RATE_MBPS" || why "faster than the line: $NOTE" || return
	holds "$rtt >= 3 && $rtt < 6" || why "round trip: $NOTE" || return
	cut -d, -f"$(column marks)" "$LAB_DIR/trace.csv" | grep -q 'lost.*resent\|resent.*lost' ||
		why "no row is marked lost and resent"
}

# A later trace still gets the last seconds, and draws them.
past_is_drawn() {
	lab_client a trace link --past --seconds 0.5 --csv >"$LAB_DIR/past.csv" || why "trace --past fails" || return
	NOTE="$(wc -l <"$LAB_DIR/past.csv") rows of the past"
	[ "$(wc -l <"$LAB_DIR/past.csv")" -gt 200 ] || why "$NOTE" || return
	lab_client a trace link --past --seconds 0.5 --plot "$LAB_DIR/trace.svg" || why "no picture" || return
	[ "$(grep -c '<path stroke' "$LAB_DIR/trace.svg")" -ge 5 ] || why "an empty picture" || return
	grep -q 'round trip' "$LAB_DIR/trace.svg" || why "no axis of round trips"
}

cut_is_seen() {
	trace_of a "$LAB_DIR/cut.json" --json
	lab_wait 3 test -s "$LAB_DIR/cut.json" || why "no trace" || return
	lab_line_ctl cut
	lab_wait 6 grep -q '"state":"dead"' "$LAB_DIR/cut.json" || why "the path is not dead after 6 s" || return
	lab_line_ctl uncut
	lab_wait 6 grep -q '"marks":.*"up"' "$LAB_DIR/cut.json" || why "no mark when it came back" || return
	trace_end || why "trace ended with $?" || return
	jq -es 'length > 2 and .[0].ok and all(.[1:][]; .path_number == 0 and .now_ns > 0)' "$LAB_DIR/cut.json" >/dev/null ||
		why "lines that are no samples"
}

goes_on() {
	[ -n "$(sed '1,/begins_again/d' "$LAB_DIR/again.json")" ]
}

# A trace goes on over a restart of its link: here the barrier is turned on.
goes_on_after_restart() {
	lab_edges_stop
	LAB_MODE=host
	up || return
	trace_of a "$LAB_DIR/again.json" --json
	lab_wait 3 test -s "$LAB_DIR/again.json" || why "no trace" || return
	sed -i 's/^AckMode=.*/AckMode=near/' "$(lab_conf_path a)" "$(lab_conf_path b)"
	lab_client b reload >/dev/null && lab_client a reload >"$LAB_DIR/reload.out" || why "reload fails" || return
	lab_wait 10 lab_link_is_up || why "the link does not come up again" || return
	lab_wait 3 grep -q begins_again "$LAB_DIR/again.json" || why "nobody said so: $(head -1 "$LAB_DIR/reload.out")" || return
	lab_wait 3 goes_on || why "no samples afterwards" || return
	trace_end || why "trace ended with $?"
}

# A client that does not read, and invalid requests.
bad_clients() {
	local i rss
	rss=$(awk '/^VmRSS/ { print $2 }' "/proc/$(lab_edge_child a)/status")
	for i in 1 2 3 4; do
		(printf 'longreach/1 trace link link past\n'; sleep 4) | socat -u - "UNIX-CONNECT:$LAB_DIR/a/control" &
	done
	lab_rcperf --size 65536 --depth 64 --secs 2 || why "contents, order or count are wrong" || return
	rss=$(($(awk '/^VmRSS/ { print $2 }' "/proc/$(lab_edge_child a)/status") - rss))
	NOTE="$rss KiB more for four that do not read"
	[ "$rss" -lt 16000 ] || why "$NOTE" || return
	! lab_client a trace nolink --seconds 1 2>"$LAB_DIR/err" || why "a trace of no link" || return
	grep -q 'there is no link nolink' "$LAB_DIR/err" || why "$(head -1 "$LAB_DIR/err")" || return
	! lab_client a trace link --path east --seconds 1 2>"$LAB_DIR/err" || why "a trace of no path" || return
	grep -q 'has no path east' "$LAB_DIR/err" || why "$(head -1 "$LAB_DIR/err")"
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 300
lab_server $B_HOST
check "both edges up" up
check "trace under 1 % loss: losses, rate and round trip of the line" under_loss
check "the last seconds are known afterwards, and drawn" past_is_drawn
check "a cut and its end are seen" cut_is_seen
check "a trace goes on over a restart of its link" goes_on_after_restart
check "those that ask and do not read, or ask for nonsense" bad_clients
check_end
