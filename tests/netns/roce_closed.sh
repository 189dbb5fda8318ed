# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# roce_closed.sh - whether RoCE passes an edge unsealed. To be sourced after lab.sh and check.sh.

seen() {
	lab_line_ctl stats | jq '.ab.seen_roce + .ba.seen_roce'
}

stays_closed() {
	local before after
	before=$(seen)
	! LAB_PATIENCE=2 lab_rcperf --iters 5 --depth 1 --size 4096 || why "RoCE passed" || return
	after=$(seen)
	NOTE="$((after - before)) RoCE packets crossed the line"
	[ "$after" = "$before" ] || why "$NOTE"
}

opens() {
	local before after
	before=$(seen)
	lab_rcperf --iters 5 --depth 1 --size 4096 || why "nothing passed" || return
	after=$(seen)
	NOTE="$((after - before)) RoCE packets crossed the line"
	[ "$after" -gt "$before" ] || why "$NOTE: the test would not notice what is open"
}

ping_passes() {
	lab_in ha busybox ping -q -c 1 -W 1 $B_HOST >"$LAB_DIR/ping" 2>&1
}

rules_stand() {
	lab_in ea nft list table netdev longreach_link | grep -q 'device' &&
		lab_in ea nft list table inet longreach_link | grep -q drop
}

all_is_closed() {
	lab_in ea nft list table inet longreach 2>/dev/null | grep -q 'udp dport 4791.*drop'
}

rule_at_89() { # of both families
	lab_ip ea rule show | grep -q '^89:.*dport 4791.*blackhole' && lab_ip ea -6 rule show | grep -q '^89:.*dport 4791.*blackhole'
}
