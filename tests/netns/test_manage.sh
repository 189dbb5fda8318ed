#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Operating the daemon: reload, bad files, the kernel's other traffic, and leftovers after its end.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

# State of an edge that the daemon must restore: rules and offloads.
kernel_state() { # edge-namespace
	lab_in "$1" nft list ruleset
	lab_in "$1" ethtool -k lan0
	lab_in "$1" ethtool -k wan0
	lab_ip "$1" -d link show dev lan0
}

link_up_noting_state() {
	kernel_state ea >"$LAB_DIR/ea.before"
	kernel_state eb >"$LAB_DIR/eb.before"
	lab_edges
	lab_link_up
}

mode_is() { # mode
	[ "$(lab_status a '.links[0].ack_mode')" = "$1" ] && [ "$(lab_status b '.links[0].ack_mode')" = "$1" ] &&
		lab_link_is_up
}

rewrite() { # edge sed-expression
	sed -i "$2" "$(lab_conf_path "$1")"
}

reload_mode() { # from to
	local edge
	mode_is "$1" || why "the mode is not $1 before" || return
	for edge in a b; do
		rewrite $edge "s/^AckMode=.*/AckMode=$2/"
		lab_client $edge reload >"$LAB_DIR/reload.out" 2>&1 || why "$(head -1 "$LAB_DIR/reload.out")" || return
	done
	lab_wait 5 mode_is "$2" || why "the mode is not $2 after reload at both edges" || return
	lab_rcperf --size 4096 --depth 1 --iters 50 || why "no traffic after reload" || return
	NOTE="median latency now $(lab_result .here.latency_us.p50) us"
	case $2 in
	near) holds "$(lab_result .here.latency_us.p1) < 3000" ;; # the round trip
	host) holds "$(lab_result .here.latency_us.p1) >= 3000" ;;
	esac || why "$NOTE"
}

# No early ACKs any more, but the barrier that auto turned on stays on; the log says so once.
barrier_stays() {
	local edge
	mode_is host || why "the mode is not host" || return
	for edge in a b; do
		[ "$(lab_status $edge '.links[0].barrier.mode')" = pair ] || why "edge $edge has changed its barrier" || return
		[ "$(grep -c 'Barrier=auto stays pair' "$LAB_DIR/$edge/log")" = 1 ] || why "edge $edge did not say so" || return
	done
	lab_in ha busybox ping -c 2 -i 0.2 -W 2 $B_HOST >/dev/null || why "no ping between the hosts"
}

# A link started without a barrier gets one when early ACKs are turned on: it is restarted, and the log says so.
barrier_turns_on() {
	local edge
	lab_edges_stop
	LAB_MODE=host
	lab_edges
	lab_link_up || return
	[ "$(lab_status a '.links[0].barrier.mode')" = off ] || why "the barrier is not off with host" || return
	reload_mode host near || return
	for edge in a b; do
		[ "$(lab_status $edge '.links[0].barrier.mode')" = pair ] || why "edge $edge has no barrier" || return
	done
	grep -q 'restarted, to turn its barrier or FEC on or off' "$LAB_DIR/reload.out" ||
		why "$(head -1 "$LAB_DIR/reload.out")" || return
	lab_in ha busybox ping -c 2 -i 0.2 -W 2 $B_HOST >/dev/null || why "no ping between the hosts"
}

# The barrier of one edge only: RoCE and all other IP are carried, both ways, and nothing is acknowledged early.
barrier_at_one_edge() {
	lab_edges_stop
	LAB_MODE=near LAB_EXTRA_A=Link.Barrier=pair LAB_EXTRA_B=Link.Barrier=off
	lab_edges
	LAB_EXTRA_A= LAB_EXTRA_B=
	lab_wait 10 disagrees || why "state $(lab_status a '.links[0].state')" || return
	NOTE=$(lab_status a '.links[0].peer.difference')
	[[ $NOTE = "Barrier= is pair here and off there (with rp_filter=1 "* ]] || why "$NOTE" || return
	lab_in ha busybox ping -c 3 -i 0.2 -W 2 $B_HOST >/dev/null || why "no ping between the hosts" || return
	lab_rcperf --size 20000 --iters 100 || why "no traffic, or no TCP" || return
	holds "$(lab_result .here.latency_us.p50) >= 3000" ||
		why "acknowledged early: $(lab_result .here.latency_us.p50) us" || return
	LAB_MODE=near
	lab_edges_stop
	lab_edges
	lab_link_up
}

disagrees() {
	[ "$(lab_status a '.links[0].state')" = mismatch ] && [ "$(lab_status b '.links[0].state')" = mismatch ]
}

# Two reloads, by signal and by command, each with another rate in the file: the rate must be in force, and the load must run
# before and after.
reload_under_load() {
	local LOADED
	LOADED=$(lab_status a '.links[0].counters.lan_rx_bytes')
	lab_load --op mix --qps 2 --size 20000 || why "no traffic" || return
	two_reloads
	[ -n "$WHY" ] || lab_load_moves || why "no traffic behind the reloads"
	lab_load_end || why "contents, order or count are wrong" || return
	NOTE="350M by SIGHUP, 300M by reload, $(lab_result '"\(.messages) messages verified"')"
	[ -z "$WHY" ]
}

two_reloads() {
	lab_wait 5 under_way || why "no traffic" || return
	rewrite a 's/^Rate=.*/Rate=350M/'
	kill -HUP "${LAB_EDGE_PID[a]}" "${LAB_EDGE_PID[b]}"
	lab_wait 5 rate_is 350000000 || why "after SIGHUP the rate is $(lab_status a '.links[0].rate_bps')" || return
	rewrite a 's/^Rate=.*/Rate=300M/'
	lab_client a reload >"$LAB_DIR/reload.out" 2>&1 || why "$(head -1 "$LAB_DIR/reload.out")" || return
	lab_wait 5 rate_is 300000000 || why "after reload the rate is $(lab_status a '.links[0].rate_bps')"
}

under_way() { # a megabyte more from the hosts than $LOADED
	[ "$(lab_status a '.links[0].counters.lan_rx_bytes')" -gt $((LOADED + 1000000)) ]
}

rate_is() { # bit/s
	[ "$(lab_status a '.links[0].rate_bps')" = "$1" ]
}

bad_file() { # sed-expression expected-in-the-message
	local before after
	before=$(lab_status a '.links[0] | [.ack_mode, .rate_bps, .state] | @csv')
	cp "$(lab_conf_path a)" "$LAB_DIR/good.conf"
	rewrite a "$1"
	! lab_client a reload >"$LAB_DIR/reload.out" 2>&1 || why "a bad file was taken" || return
	NOTE=$(grep -m1 "$2" "$LAB_DIR/reload.out" | sed 's/^[^:]*: //' | cut -c1-110)
	[ -n "$NOTE" ] || why "the message does not quote the error: $(head -1 "$LAB_DIR/reload.out")" || return
	cp "$LAB_DIR/good.conf" "$(lab_conf_path a)"
	after=$(lab_status a '.links[0] | [.ack_mode, .rate_bps, .state] | @csv')
	[ "$before" = "$after" ] || why "before: $before; after: $after" || return
	lab_rcperf --size 4096 --iters 20 || why "no traffic after a refused file"
}

help_for_a_command() {
	local status
	"$LAB_BIN/longreach" status --help >"$LAB_DIR/help.txt" 2>&1
	status=$?
	[ $status = 0 ] && grep -q '^usage: longreach status' "$LAB_DIR/help.txt" || why "$(head -1 "$LAB_DIR/help.txt")"
}

check_config_says() {
	cp "$(lab_conf_path a)" "$LAB_DIR/bad.conf"
	sed -i 's/^MTU=.*/MTU=banana/' "$LAB_DIR/bad.conf"
	! "$LAB_BIN/longreachd" --check-config "$LAB_DIR/bad.conf" >"$LAB_DIR/out" 2>&1 || why "it was accepted" || return
	NOTE=$(head -1 "$LAB_DIR/out" | sed "s|$LAB_DIR/||" | cut -c1-110)
	grep -q banana "$LAB_DIR/out" && lab_in ea "$LAB_BIN/longreachd" --check-config "$(lab_conf_path a)" >/dev/null 2>&1 ||
		why "$NOTE"
}

other_traffic() {
	local tcp bytes ms
	lab_load --depth 16 || why "no traffic" || return
	ms=$(lab_in ha busybox ping -c 10 -i 0.1 -W 2 $B_HOST | awk '/packets received/ { print $4 }')
	lab_in hb socat -u TCP-LISTEN:5002,reuseaddr - 2>/dev/null | wc -c >"$LAB_DIR/count" &
	tcp=$!
	lab_wait 2 lab_listens hb 5002
	head -c 8M /dev/zero | lab_in ha timeout 200 socat -u - "TCP:$B_HOST:5002"
	wait $tcp
	bytes=$(cat "$LAB_DIR/count")
	lab_load_end || why "RDMA: contents, order or count are wrong" || return
	[ "$bytes" = $((8 << 20)) ] || why "TCP: $bytes of $((8 << 20)) bytes" || return
	[ "${ms:-0}" -ge 8 ] || why "ping: $ms of 10 came back" || return
	NOTE="ping $ms of 10, TCP whole, RDMA $(lab_result '.goodput_gbps * 1000 | round / 1000') Gbit/s"
}

put_right() { # signal
	local e
	for e in a b; do
		rm "$(lab_conf_path $e)"
		lab_client $e reload >"$LAB_DIR/reload.out" 2>&1 || why "$(head -1 "$LAB_DIR/reload.out")" || return
		lab_edge_stop $e "$1"
		[ "$LAB_EDGE_LAST" = 0 ] || why "edge $e ended with status $LAB_EDGE_LAST" || return
		kernel_state e$e >"$LAB_DIR/e$e.after"
		diff "$LAB_DIR/e$e.before" "$LAB_DIR/e$e.after" >"$LAB_DIR/diff" ||
			why "edge $e left: $(grep '^[<>]' "$LAB_DIR/diff" | head -3 | tr '\n' ';')" || return
	done
	lab_rcperf --iters 50 --depth 8 || why "the hosts do not reach each other directly afterwards"
}

# The port gives each frame to the daemon and to the kernel, which has a route for it: only the rules stop the kernel's copy.
# Their counters show it.
closed_while_running() {
	local before dropped
	before=$(lab_unsealed)
	lab_rcperf --size 4096 --iters 200 || why "contents, order or count are wrong" || return
	NOTE="$(($(lab_unsealed) - before)) packets crossed the line unsealed"
	[ "$(lab_unsealed)" = "$before" ] || why "$NOTE" || return
	dropped=$(lab_in ea nft -j list table netdev longreach_link | jq '[.. | .counter? // empty | .packets] | add')
	NOTE="$NOTE; ${dropped:-0} dropped on their way into edge A's"
	[ "${dropped:-0}" -ge 200 ] || why "$NOTE"
}

# A killed daemon restores nothing: acknowledged bytes may be in its buffer, so RoCE must not bypass it, nor, with the barrier
# on, other IP. The next start continues.
killed_and_restarted() {
	{ lab_edge_stop a KILL; } 2>/dev/null
	! LAB_PATIENCE=2 lab_rcperf --iters 5 --depth 1 --size 4096 || why "RoCE went around a killed edge" || return
	! lab_in ha busybox ping -c 1 -W 1 $B_HOST >/dev/null || why "IP went around a killed edge" || return
	lab_in ha busybox ping -c 1 -W 20 10.101.1.1 >/dev/null || why "the edge itself is cut off, too" || return
	lab_edge_start a
	lab_link_up || why "the link does not come up again" || return
	lab_wait 3 lab_in ha busybox ping -c 1 -W 2 $B_HOST || why "no ping after a restart" || return
	lab_rcperf --op mix --size 20000 --iters 200 || why "no traffic after a restart"
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 300
lab_watch_line
lab_server $B_HOST
LAB_MODE=near
check "both edges up" link_up_noting_state
check "the kernel does not forward RoCE while the daemon runs" closed_while_running
check "reload: near becomes host" reload_mode near host
check "the barrier that auto turned on stays on" barrier_stays
check "reload: host becomes near" reload_mode host near
check "reload: near with a barrier, of a link started in host" barrier_turns_on
check "a barrier at one edge only: IP is carried all the same" barrier_at_one_edge
check "reload under load" reload_under_load
check "a bad value is refused, the running link stays" bad_file 's/^AckMode=.*/AckMode=maybe/' maybe
check "an unknown key is refused, the running link stays" bad_file 's/^AckMode=/AckMod=/' AckMod
check "--check-config quotes what is wrong" check_config_says
check "longreach status --help helps" help_for_a_command
check "ping and TCP pass beside RDMA" other_traffic
check "SIGKILL: RoCE stays closed; a restart carries on" killed_and_restarted
check "link file removed: rules and offloads as before, hosts go direct" put_right TERM
check_end
