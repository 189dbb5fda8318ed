# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# lives.sh - queue pairs that come again; sourced by run.sh.
#
# A life is one run of rccheck without rdma_cm, from PSN 0, whose messages have the same contents in all lives. The RDMA device
# is created again before each life, so that the same QPNs come again: packets of two lives are identical, and only the
# responder can tell them apart. Restarted programs behave like this.

# Makes the RDMA device of a guest anew, so that its QPNs begin again, and waits for its addresses.
rdma_anew() { # a|b
	"$vm_build/vmrun" -n "$P-$1" -t 20 'rdma link delete rxe0 && rdma link add rxe0 type rxe netdev lan0 || exit 1
		for i in $(seq 100); do
			grep -q ":ffff:0a0" /sys/class/infiniband/rxe0/ports/1/gids/* 2>/dev/null && exit 0
			usleep 30000
		done
		echo "rxe0 has no address"; exit 1' >"$work/rdma-anew" 2>&1
}

# check_lives NAME "SITES" LIVES GAP_S ARGS...: runs LIVES lives, GAP_S apart; the QPNs of SITES come again. Each life must
# succeed; rccheck is as strict as the mode allows.
check_lives() {
	local name=$1 sites=$2 lives=$3 gap_s=$4 early="" life s rc=0 wrong="" here there
	wanted "$name" || return
	shift 4
	[ "$mode" = near ] && early=--early-acks
	rm -f "$work/$mode-$name".qpns
	for life in $(seq "$lives"); do
		[ "$life" = 1 ] || sleep "$gap_s"
		for s in $sites; do
			rdma_anew $s || { finish "$name" 1 "no new device in guest $s: $(tail -n 1 "$work/rdma-anew")" && return; }
		done
		pair "$mode-$name" 20 "rccheck -S -p PORT --timeout 18" \
			"rccheck -p PORT --timeout 18 --stall 5 --psn 0 --same --fixed -s 4000 -n 16 $early $* PEER"
		[ $? = 0 ] && grep -q '"verdict":"pass"' "$work/$mode-$name.a" || rc=1 wrong+=" $life"
		sed -n 's/^qp 0: QPN \([0-9]*\) to \([0-9]*\), PSN 0$/\1 \2/p' "$work/$mode-$name.a" >>"$work/$mode-$name.qpns"
	done
	# The test needs QPNs that come again. More than one QPN at a site: that site had no new device.
	here=$(cut -d' ' -f1 "$work/$mode-$name.qpns" | sort -u | wc -l)
	there=$(cut -d' ' -f2 "$work/$mode-$name.qpns" | sort -u | wc -l)
	[ "$(wc -l <"$work/$mode-$name.qpns")" = "$lives" ] || rc=1 wrong+=" (QPNs are not known)"
	[[ $sites != *a* || $here = 1 ]] && [[ $sites != *b* || $there = 1 ]] || rc=1 wrong+=" (QPNs did not come again)"
	here=$(sort -u "$work/$mode-$name.qpns" | tr ' \n' '>,')
	finish "$name" $rc "$lives lives, QPNs ${here%,}${wrong:+; wrong:$wrong}"
}

# Directly the line loses nothing: rxe answers some repeated CMP_SWAPs with another value than the first time.
suite_lives() {
	local m
	for m in ${modes:-direct near host}; do
		if [ "$m" = direct ]; then loss=0 impair 300 0 0 0; else impair 300 0 0 0; fi
		use "$m"
		check_lives lives "a b" 6 0 -P send,imm
		check_lives lives-q4 "a b" 4 0 -P send -q 4
		check_lives lives-responder b 4 0 -P send
		check_lives lives-12-s "a b" 3 12 -P send,imm
		# On the same edges: leftovers of these lives must not disturb other connections.
		check_rc lives-and-after -q 2 -b -n 32
	done
}
