# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# promise.sh - the promise of a completion: late errors, TCP messages, a disconnect right behind; sourced by run.sh.

# check_drill NAME DRILL ARGS...: rccheck's drill, as strict as the mode allows; the client's output goes into the line of the
# result.
check_drill() {
	local name=$1 early="" rc
	wanted "$name" || return
	[ "$mode" = near ] || [ "$mode" = far ] && early=--early-acks
	pair "$mode-$name" "${rc_seconds:-300}" "rccheck -S -p PORT --timeout ${rc_seconds:-300}" \
		"rccheck -p PORT --timeout ${rc_seconds:-300} $early --drill ${*:2} PEER"
	rc=$?
	finish "$name" $rc "$(sed -n 's/^qp 0: \(told by .*\)/\1/p' "$work/$mode-$name.a" | tail -n 1)"
}

# A request that the responder refuses (wrong rkey, too long for its receive), or whose queue pair is gone, must end in an error
# at the requester, even if it was ACKed early, and must not touch the target. Directly the line loses nothing: rxe, whose retry
# count of 7 has no end, asks for ever if the one NAK is lost.
suite_rkey() {
	local m how what tuning=${tuning:-GiveUp=2s}
	for m in ${modes:-direct host far near}; do
		if [ "$m" = direct ]; then loss=0 impair 300 0 0 0; else impair 300 1% 0 0; fi
		use "$m"
		for how in rkey length gone; do
			for what in busy next idle; do
				check_drill $how-$what refuse-$what --refusal $how -n 32 -d 8 -s 16384
				[ $how = gone ] && continue
				check_drill $how-$what-q4 refuse-$what --refusal $how -q 4 -n 32 -d 8 -s 4096
			done
		done
	done
}

# rdma_disconnect right after the last completion: in mode near 1 MiB is still on its way then.
suite_part() {
	local m
	impair 300 1% 1%,300us 0.5%
	for m in ${modes:-near host}; do
		use "$m"
		rc_seconds=200 check_drill disconnect part -R -q 32 -n 32 -d 32 -s 32768
	done
}

# told NAME ROUNDS: a sender says over TCP that its WRITEs have completed, so many times; in $early how often that was
# not true. On a check of its own, not of check_drill, because with the barrier off it must fail.
told() {
	rc_seconds=400
	pair "$1" $rc_seconds "rccheck -S -p PORT --timeout $rc_seconds" \
		"rccheck -p PORT --timeout $rc_seconds --early-acks --drill tell -r $2 -q 2 -n 4 -d 4 -s 16384 PEER"
	early=$(sed -n "s/^told $2 times, too early \([0-9]*\) times/\1/p" "$work/$1.b")
}

suite_barrier() {
	local name early rounds=${TELLINGS:-1000}
	impair 300 1% 0 0
	for name in barrier-pair barrier-off; do
		wanted $name || continue
		barrier=${name#barrier-} use near
		told near-$name "$rounds"
		if [ -z "$early" ]; then
			finish $name 1 "no end: $pair_detail"
		elif [ $name = barrier-pair ]; then
			finish $name "$early" "told $rounds times, $early too early"
		elif [ "$early" -gt 0 ]; then
			finish $name 0 "the hazard: told $rounds times, $early too early"
		else
			finish $name 1 "no hazard seen: what does the barrier's test show?"
		fi
	done
}
