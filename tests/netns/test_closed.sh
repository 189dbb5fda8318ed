#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The closed state: a link that cannot start, and one that was stopped, lets no RoCE through the kernel, although both
# edges forward and have routes. A counter at its WAN port tells.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

count_roce() { # what edge A's kernel sends out of its WAN port
	lab_in ea nft -f - <<-END
		table inet probe {
			chain out { type filter hook postrouting priority 0; oifname "wan0" udp dport 4791 counter; }
		}
	END
}

counted() {
	lab_in ea nft -j list table inet probe | jq '[.. | .counter? // empty | .packets] | add'
}

stays_closed() {
	local before after
	before=$(counted)
	! LAB_PATIENCE=2 lab_rcperf --iters 5 --depth 1 --size 4096 || why "RoCE passed" || return
	after=$(counted)
	NOTE="edge A's kernel sent $((after - before)) RoCE packets over the WAN"
	[ "$after" = "$before" ] || why "$NOTE"
}

key_that_does_not_match() {
	lab_edge_stop a
	cp "$LAB_DIR/keys/b/link.key" "$LAB_DIR/keys/a/link.key"
	lab_edge_start a
	lab_wait 5 grep -q 'does not start' "$LAB_DIR/a/log" || why "it starts all the same" || return
	stays_closed
}

stopped() {
	lab_edge_stop a
	stays_closed
}

lab_up
lab_line --rate $LAB_LINE_RATE
lab_server $B_HOST
LAB_EXTRA=Link.Barrier=off
lab_edges
count_roce
check "the link comes up" lab_link_up
check "a key that does not match: RoCE stays closed" key_that_does_not_match
check "SIGTERM: RoCE stays closed" stopped
check_end
