#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The line emulator and the lab themselves, without RDMA: all other tests depend on them.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

model() {
	"$LAB_TOOLS/wanline" --selftest 0 >"$LAB_DIR/selftest" || why "$(grep -m1 FAIL "$LAB_DIR/selftest")"
}

rtt_ms() { # destination
	lab_in ha busybox ping -c 7 -i 0.05 -W 2 "$1" | awk -F'= |/' '/^round-trip/ { print $4 }'
}

round_trip() { # km
	local ms want
	rm -f "$LAB_DIR/rtt"
	lab_line_set "$1"
	want=$(awk "BEGIN { print $1 * 0.01 }")
	lab_wait 5 pings_within "$(awk "BEGIN { print $want + 2 }")"
	ms=$(sort -g "$LAB_DIR/rtt" | head -1)
	NOTE="ping sees at least $ms ms, the fibre takes $want ms"
	holds "$ms >= $want && $ms < $want + 2" || why "$NOTE"
}

# On a busy machine most pings take longer.
pings_within() { # ms
	local ms
	ms=$(rtt_ms $B_HOST)
	echo "$ms" >>"$LAB_DIR/rtt"
	holds "${ms:-1e9} < $1"
}

tcp_bytes() { # MiB of zeros that arrive at host B, as its count
	lab_in hb socat -u TCP-LISTEN:5001,reuseaddr - 2>/dev/null | wc -c >"$LAB_DIR/count" &
	local pid=$!
	lab_wait 2 lab_listens hb 5001
	head -c "$1M" /dev/zero | lab_in ha socat -u - "TCP:$B_HOST:5001"
	wait $pid
	cat "$LAB_DIR/count"
}

tcp_whole() {
	lab_line_set 100 loss=0.1%
	[ "$(tcp_bytes 16)" = $((16 << 20)) ] || why "TCP lost bytes on the way"
}

cut_and_mend() {
	lab_line_set 0
	lab_line_ctl cut
	! lab_in ha busybox ping -c 1 -W 1 $B_HOST >/dev/null || why "ping crossed a cut line" || return
	lab_line_ctl uncut
	lab_wait 2 lab_in ha busybox ping -c 1 -W 1 $B_HOST || why "ping does not cross the mended line"
}

accounted_for() {
	local n
	n=$(lab_line_ctl stats | jq '[.ab, .ba] | map(.emu_no_room + .emu_oversize + .emu_send_errors + .emu_ring_drops) | add')
	[ "$n" = 0 ] || why "the emulator itself lost $n frames" || return
	NOTE=$(lab_line_ctl stats | jq -r '.ab.late_us | "sent late by \(.p50) us (median), \(.p99) us (99 %)"')
}

lab_up
check "line: the model, in virtual time" model
lab_line --rate $LAB_LINE_RATE
check "line: 0 km" round_trip 0
check "line: 300 km" round_trip 300
check "line: 3000 km" round_trip 3000
check "line: TCP across 100 km with 0.1 % loss comes whole" tcp_whole
check "line: cut and mended" cut_and_mend
check "line: nothing lost but what was asked for" accounted_for
check_end
