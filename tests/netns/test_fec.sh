#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# FEC between real daemons: lost datagrams are rebuilt and few packets are sent again; contents are right; status shows it. An
# edge without FEC is sent no repairs.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

link() { # FEC of A, FEC of B
	LAB_EXTRA_A=Link.FEC=$1 LAB_EXTRA_B=Link.FEC=$2
	lab_relink 3000
}

ctr() { # a|b counter
	lab_status "$1" ".links[0].counters.$2"
}

# Counts of both edges while rcperf verifies every byte: rebuilt, sent again.
counts() {
	echo "$(($(ctr a fec_rebuilt) + $(ctr b fec_rebuilt))) $(($(ctr a wan_lost) + $(ctr b wan_lost)))"
}

transfer() { # line... -- rcperf-options...
	local line=() before after
	while [ "$1" != -- ]; do
		line+=("$1")
		shift
	done
	shift
	lab_line_set 3000 "${line[@]}"
	before=$(counts)
	lab_rcperf "$@" || why "contents, order or count are wrong" || return
	after=$(counts)
	REBUILT=$((${after% *} - ${before% *})) AGAIN=$((${after#* } - ${before#* }))
	NOTE="$REBUILT rebuilt, $AGAIN sent again; $(lab_result '.goodput_gbps * 1000 | round / 1000') Gbit/s"
}

mended() { # share in percent that FEC must make up for; line... -- rcperf-options...
	local want=$1
	shift
	local rebuilt=0 again=0
	# on a busy machine fewer packets come in the same time
	while [ $rebuilt -lt 20 ]; do
		transfer "$@" || return
		[ $((REBUILT + AGAIN)) -gt 0 ] || why "nothing is lost on the line" || return
		rebuilt=$((rebuilt + REBUILT)) again=$((again + AGAIN))
		[ $again -lt 200 ] || break
	done
	REBUILT=$rebuilt AGAIN=$again
	[ $((100 * REBUILT)) -ge $((want * (REBUILT + AGAIN))) ] || why "$NOTE: less than $want % rebuilt"
}

status_says() {
	local f
	f=$(lab_status a '.links[0].fec | [.mode, .paths[0].k, .paths[0].m] | join(" ")')
	[ "$f" = "16+4 16 4" ] || why "status of A says '$f'" || return
	holds "$(lab_status a '.links[0].fec.spared') > 0 && $(lab_status b '.links[0].fec.rebuilt') > 0" ||
		why "status knows of nothing rebuilt" || return
	holds "$(lab_status a '.links[0].fec.paths[0].loss') > 0.002" || why "A was not told of the losses" || return
	lab_client a status | grep -q '^  fec  *16+4; 16+4 x ' || why "longreach status has no line about FEC" || return
	NOTE=$(lab_client a status | sed -n 's/^  fec *//p')
}

# Messages on a quarter of the line, from the first one on; long enough for some 350 losses, as 95 % of 100 is missed by chance.
auto_on() {
	mended 95 loss=1% -- --secs 16 --size 65536 --every-ms 4.4 --depth 512 || return
	[ "$(lab_status a '.links[0].fec.paths[0].k')" -gt 0 ] || why "auto is off at 1 % loss" || return
	NOTE="$NOTE; $(lab_client a status | sed -n 's/^  fec *//p')"
}

# A full line gets no repairs, except in the moment before the edge sees that it is full.
auto_full() {
	local repairs datagrams
	repairs=$(ctr a fec_tx_repairs) datagrams=$(ctr a wan_tx_datagrams)
	transfer loss=1% -- --secs 4 --depth 32 || return
	repairs=$(($(ctr a fec_tx_repairs) - repairs)) datagrams=$(($(ctr a wan_tx_datagrams) - datagrams))
	NOTE="$NOTE; $repairs repairs, $datagrams datagrams"
	[ $((100 * repairs)) -lt "$datagrams" ] || why "$NOTE: a full line pays for FEC"
}

# Both edges apply another FEC= while packets flow, and report it; every byte stays right.
reload_under_load() { # FEC what-each-edge-says line...
	local edge before
	before=$(ctr a lan_rx_bytes)
	lab_line_set 3000 "${@:3}"
	# shellcheck disable=SC2086 # several words
	lab_load --depth 32 $LAB_PATIENT && lab_wait 10 flows $((before + 64 * 65536)) || why "no traffic" || return
	for edge in a b; do
		sed -i "s/^FEC=.*/FEC=$1/" "$(lab_conf_path $edge)"
		lab_client $edge reload >"$LAB_DIR/reload.out" 2>&1 || why "$(head -1 "$LAB_DIR/reload.out")" || return
		grep -q "$2" "$LAB_DIR/reload.out" || why "$(head -1 "$LAB_DIR/reload.out")" || return
	done
	lab_load_moves || why "no traffic behind it"
	lab_load_end || why "contents, order or count are wrong beside it: $(lab_result .failure)"
	[ -z "$WHY" ] && lab_wait 5 fec_is "$1" || why "status: $(lab_status a '.links[0].fec.mode')"
}

reload_to() { # FEC
	reload_under_load "$1" ': changed' loss=1%
}

# On or off takes memory: the link is restarted, its arena kept, and so are the queue pairs: both edges under load, the
# responder ahead of what the requester's edge was told.
turned_off() {
	reload_under_load off ': restarted, to turn' || return
	lab_link_up || return
	transfer loss=1% -- --secs 1 --depth 32 || return
	[ "$(ctr a fec_tx_repairs)" = 0 ] || why "repairs all the same"
}

flows() { # bytes from hosts: more than fit the send queue, so some are acknowledged
	[ "$(ctr a lan_rx_bytes)" -gt "$1" ]
}

fec_is() {
	[ "$(lab_status a '.links[0].fec.mode')" = "$1" ]
}

# Loss towards the other edge before and after FEC, by path, in status and metrics.
per_path() {
	local p
	p=$(lab_status a '.links[0].paths[0] | [.rtt_min_ns, .rtt_ns, .rtt_p99_ns, .line_loss, .line_loss_burst, .reordered,
		.repaired_by_fec, .rebuilt_by_fec, .repaired_by_retransmission, .delivery_bps, .state, .epoch] |
		map(select(. == null)) | length')
	[ "$p" = 0 ] || why "$p of a path's figures are missing" || return
	p=$(lab_status a '.links[0].paths[0] | [.line_loss, .line_loss_burst, .repaired_by_fec] | map(tostring) | join(" ")')
	set -- $p
	holds "$1 > 0.003 && $1 < 0.03 && $2 > 2 && $2 < 12 && $3 > 20" ||
		why "1 % in bursts of 5 is shown as $1 in bursts of $2, $3 repaired by FEC" || return
	holds "$3 == $(ctr a fec_retransmits_saved)" || why "repaired by FEC: $3, and $(ctr a fec_retransmits_saved) in all" || return
	lab_client a status | grep -q 'the line loses .* %, in bursts of ' ||
		why "longreach status has no line about it" || return
	NOTE="$1 in bursts of $2; $3 repaired by FEC"
}

off_there() {
	transfer loss=1% -- --secs 1 --depth 32 || return
	[ "$(ctr a fec_tx_repairs)$(ctr b fec_tx_repairs)" = 00 ] || why "repairs for an edge that has none of it"
}

lab_up
lab_line --rate $LAB_LINE_RATE
lab_server $B_HOST

check "fec: the link comes up with FEC=16+4" link 16+4 16+4
check "fec: no loss, nothing to do" transfer -- --secs 0.7 --depth 32
check "fec: 1 % loss is rebuilt" mended 95 loss=1% -- --secs 2 --depth 32

check "fec: single messages, 5 % loss: the tail is protected" mended 90 loss=5% -- --iters 3000 --size 4096 --depth 1
check "fec: a mix, both ways, 1 % loss, 1 % 200 us late" mended 90 loss=1% reorder=1%,200us \
	-- --op mix --qps 4 --bidir --secs 2 --size 20000
check "fec: status tells" status_says
check "fec: FEC=8+8" link 8+8 8+8
# One burst in six is longer than 8, and 3 s have some thirty of them.
check "fec: 1 % in bursts of 5 is rebuilt" mended 65 loss=1% burst=5 -- --secs 3 --depth 32
check "fec: figures of the path" per_path
check "fec: another K+M by reload, under load" reload_to 16+4
check "fec: auto by reload, under load" reload_to auto
check "fec: off by reload: the link restarts" turned_off
check "fec: FEC=auto" link auto auto
check "fec: auto, a line with room, 1 % is rebuilt" auto_on
check "fec: auto, a full line has no repairs" auto_full
check "fec: FEC=off at the other edge" link 16+4 off
check "fec: nothing is sent to an edge without" off_there
check_end
