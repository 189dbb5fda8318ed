# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# programs.sh - programs that run in the guests, and their expected results; sourced by run.sh.

# The event thread of rping sometimes reads from a channel that its own end has closed, and returns that as exit status: after
# the last ping, when both sides have seen the other's end.
check_rping() {
	local n=$mode-rping rc
	wanted rping || return
	pair "$n" 300 "rping -s -C 20 -V -S 1000 -a 0.0.0.0 -p PORT" "rping -c -C 20 -V -S 1000 -a PEER -p PORT"
	rc=$?
	if [ "$pair_detail" = "exit 255/0" ] &&
		[ "$(tr '\n' ' ' <"$work/$n.a")" = "client DISCONNECT EVENT... rdma_get_cm_event: Bad file descriptor " ]; then
		rc=0
	fi
	finish rping $rc "$pair_detail"
}

# perf NAME PROGRAM ARGS...: leaves Gbit/s in $gbps, of perftest's MiB/s: in Gbit/s it prints two digits.
perf() {
	local name=$1 prog=$2 late="" rc
	shift 2
	local run="$prog -d rxe0 -x ${gid_index:-1} -F -p PORT $*"
	gbps=0
	[[ " $* " != *" -R "* ]] || late="LD_PRELOAD=/bin/late_connect.so LATE_CONNECT=/tmp/listens.PORT "
	pair "$mode-$name" "${perf_seconds:-300}" "$run" "$late$run PEER"
	rc=$?
	gbps=$(awk '$1 ~ /^[0-9]+$/ && NF >= 5 && $4 ~ /^[0-9.]+$/ { m = $4 }
		END { printf "%.4g", m * 8 * 1.048576 / 1000 }' "$work/$mode-$name.a")
	return $rc
}

check_perf() { # NAME PROGRAM ARGS...
	local name=$1
	wanted "$name" || return
	perf "$@"
	finish "$name" $? "$gbps Gbit/s"
	echo "$mode $name $gbps" >>"$table"
}

# check_rc NAME ARGS...: the checker, as strict as the mode allows.
check_rc() {
	local name=$1 early="" rc
	wanted "$name" || return
	shift
	[ "$mode" = near ] && early=--early-acks
	pair "$mode-$name" "${rc_seconds:-300}" "rccheck -S -p PORT --timeout ${rc_seconds:-300}" \
		"rccheck -p PORT --timeout ${rc_seconds:-300} $early $* PEER"
	rc=$?
	grep -q '"verdict":"pass"' "$work/$mode-$name.a" || rc=1
	finish "$name" $rc "$(sed -n 's/.*"wrong":\([0-9]*\).*/\1 wrong/p' "$work/$mode-$name.a" | tail -n 1)"
}

# lat_of NAME WHICH: min, median or max of phase lat in us.
lat_of() { sed -n "s/.*\"name\":\"lat\".*\"lat_$2_us\":\([0-9]*\).*/\1/p" "$work/$1.a" | tail -n 1; }

# In mode host nothing may complete before the responder can have answered; in near the distance must not show: half of the
# round trip at most, beside what it takes at 0 km.
check_latency() {
	local far=1000 rtt_us=10000 near_us far_us old=$line_km
	wanted latency || return
	if [ "$mode" = near ]; then
		line_set 0 0 0 0
		check_rc latency-at-0-km -P lat -n 100 && near_us=$(lat_of near-latency-at-0-km median)
		line_set $far 0 0 0
		check_rc latency-far -P lat -n 100 --lat-max $((${near_us:-0} + rtt_us / 2)) && far_us=$(lat_of near-latency-far median)
		note "median completion at 0 km ${near_us:-?} us, at $far km ${far_us:-?} us"
	else
		line_set $far 0 0 0
		check_rc latency-far --lat-min $rtt_us -q 2 -n 40
		note "soonest completion at $far km: $(lat_of "$mode-latency-far" min) us, round trip $rtt_us us"
	fi
	line_set "$old" "$line_loss" "$line_reorder" "$line_dup"
}

# The checker must be able to fail.
check_checker() {
	local what expect
	wanted checker || return
	for what in byte order atomic late; do
		case $what in
		late) expect='was written again' ;;
		atomic) expect='FETCH_ADD' ;;
		*) expect='byte .* wrong' ;;
		esac
		pair "$mode-checker" 120 "rccheck -S -p PORT --timeout 120" \
			"rccheck -p PORT --timeout 120 -n 16 -s 8192 --break $what PEER"
		if grep -q "WRONG.*$expect" "$work/$mode-checker.a" "$work/$mode-checker.b"; then
			ok "rccheck finds a wrong $what"
		else
			bad "rccheck finds a wrong $what"
			show "$mode-checker"
		fi
	done
}

# A cut line under load: WRITEs go on for some seconds, the line is cut for ten, everything must come right.
check_cut() { # NAME ARGS...
	local name=cut-10-s${1:+-$1} pid
	wanted "$name" || return
	(
		sleep 3
		line_ctl cut
		sleep 10
		line_ctl uncut
	) &
	pid=$!
	rc_seconds=400 check_rc "$name" -P write -t 17 -q 2 --stall 90 "${@:2}"
	wait $pid
}

# The same with a buffer that is full long before the line is back: RNR NAKs must hold the requesters off, no QP may fail.
check_cut_full() {
	local used
	wanted cut-10-s-full || return
	arena_size=16MiB use "$mode"
	check_cut full --fixed -n 256 -d 64
	used=$(edge_status a --json | sed -n 's/.*"rnr_naks_tx":\([0-9]*\).*/\1/p')
	if [ "${used:-0}" -gt 0 ]; then
		ok "requesters held off by RNR" "$used RNR NAKs"
	else
		bad "requesters held off by RNR" "no RNR NAK was sent"
	fi
	use "$mode"
}

# Programs that die in the middle of their work must not disturb later programs.
check_killed() {
	local early=""
	wanted killed || return
	[ "$mode" = near ] && early=--early-acks
	pair "$mode-killed" 20 "rccheck -S -p PORT --timeout 4" \
		"rccheck -p PORT --timeout 3 $early -t 60 -P mix -b -q 4 PEER"
	pair "$mode-killed" 20 "rccheck -S -p PORT --timeout 3" \
		"rccheck -p PORT --timeout 10 $early -t 60 -P write -b -q 4 -R PEER"
	check_rc killed-and-after -n 32 -q 2 -b
	check_rc killed-and-after-R -n 32 -q 2 -b -R
}

# In near, and with the checker as strict as in host: it must see that completions come too early.
check_near_is_early() {
	local name=near-strict
	wanted near-strict || return
	line_set 1000 0 0 0
	pair $name 60 "rccheck -S -p PORT --timeout 60" "rccheck -p PORT -n 300 -s 4096 -P write --lat-min 9000 PEER"
	if grep -q 'WRONG.*too early' "$work/$name.a"; then
		ok "rccheck sees that near is early"
	else
		bad "rccheck sees that near is early" && show $name
	fi
	line_set "${km:-300}" "$line_loss" "$line_reorder" "$line_dup"
}

perf_name() { # PROGRAM ARGS...
	echo "$*" | sed 's/-n [0-9]*//; s/-s [0-9]*//; s/  */_/g; s/_$//'
}

run_perf() {
	check_perf "$(perf_name "$@")" "$@"
}
