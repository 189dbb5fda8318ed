#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A worker without its processor, and a host that goes on sending: with Pfc= the host is paused in time and no packet is lost;
# without Pfc= the receive ring runs over.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

STALL_US=150000
LOSSY= # packets are lost in the ring, as is expected

thread_of() { # edge name: its tid
	local t
	for t in "/proc/$(lab_edge_child "$1")/task"/*; do
		[[ $(cat "$t/comm") != $2* ]] || { basename "$t"; return; }
	done
}

# How long the thread of edge A has waited for a processor since its start. "": 0.
waited_ms() { # tid
	local run wait
	[ -z "$1" ] || read -r run wait _ <"/proc/$(lab_edge_child a)/task/$1/schedstat"
	echo $((${wait:-0} / 1000000))
}

# The worker runs alone on processor 1, the rest of this test on 0; then a task that never sleeps takes processor 1.
stall_worker() {
	taskset -pc 1 "$WORKER" >/dev/null || return
	[ -z "$PAUSER" ] || taskset -pc 0 "$PAUSER" >/dev/null || return
	# The task ends by its own clock: no other process would get the processor to end it.
	chrt -f 10 taskset -c 1 bash -c 'end=$((${EPOCHREALTIME/./} + $1)); while ((${EPOCHREALTIME/./} < end)); do :; done' \
		hog $STALL_US 2>/dev/null
}

# Where packets are lost by the thousand, a host may use up its seven retries if a sanitizer slows the edge down. Pfc= prevents
# this, so only the runs with Pfc= must not end so.
gave_up() {
	[ -n "$LOSSY" ] &&
		[ "$(lab_result '[.here, .there | .order_wrong + .memory_wrong] | add')" = 0 ] &&
		lab_result '.failure + .peer_failure' | grep -q 'retries exhausted'
}

# Packets lost in the ring, or a pause, or one that the watchdog ended: what the test is about.
shows() {
	[ "$(lab_status a ".links[0] | $SHOWS")" -gt 0 ] || ! lab_load_runs
}

run() { # link-file-lines... : leaves the ring's drops in DROPS, the pauses in PAUSES
	local client i WORKER PAUSER TAKEN=
	LAB_EXTRA_A=$*
	LAB_MODE=near
	lab_relink 0 || return
	WORKER=$(thread_of a lr:link) PAUSER=$(thread_of a lr:pause)
	[ -n "$WORKER" ] || why "edge A has no thread lr:link:0" || return
	[ -n "$PAUSER" ] || [ "$1" = Link.Pfc=off ] || why "edge A has no thread lr:pause" || return
	taskset -c 0 ip netns exec "$LAB_ID-ha" "$LAB_TOOLS/rcperf" client --dev rdma0 --addr $A_HOST --peer $B_HOST --json \
		--mtu 1024 --depth 256 --qps 2 --secs 3600 --pfc 4 >"$LAB_DIR/client.json" 2>"$LAB_DIR/rcperf.err" &
	LAB_LOAD=$!
	lab_load_moves || why "no traffic" || return
	# Three times at least, and until something of it shows: while RNR NAKs hold the host off, no packets come that could overrun
	# a ring, and on a busy machine the host is slow.
	for ((i = 0; i < 40; i++)); do
		[ $i -lt 3 ] || ! shows || break
		stall_worker || { TAKEN=no; break; }
		sleep 0.1
	done
	PAUSER_WAITED_MS=$(waited_ms "$PAUSER")
	client=0
	lab_load_end || client=1
	[ -z "$TAKEN" ] || { WHY="a processor cannot be taken away here"; return 77; }
	[ $client = 0 ] || gave_up || why "contents, order or count are wrong: $(lab_result .failure)" || return
	DROPS=$(lab_status a '.links[0].drops.lan_kernel')
	PAUSES=$(lab_status a '.links[0].counters | "\(.lan_pauses) pauses, \(.lan_pause_watchdog) ended by the watchdog"')
	NOTE="$DROPS packets lost in the ring; $PAUSES"
}

without_pfc() {
	SHOWS=.drops.lan_kernel LOSSY=1 run Link.Pfc=off || return
	[ "$DROPS" -gt 0 ] || { WHY="too slow a machine: the ring did not run over even without pauses"; return 77; }
}

with_pfc() {
	local waited
	SHOWS=.counters.lan_pauses run Link.Pfc=3 Tuning.PfcWatchdog=1s || return
	waited=$PAUSER_WAITED_MS
	NOTE="$NOTE; the thread that pauses waited $waited ms for its processor"
	[ "${PAUSES%% *}" -gt 0 ] || why "$NOTE" || return
	[ "$DROPS" = 0 ] && return
	# A ring holds some milliseconds: other programs of this machine may keep that thread from its processor for longer.
	[ "$waited" -le 20 ] || { WHY="other programs had the processor: $NOTE"; return 77; }
	why "$NOTE"
}

watchdog() {
	SHOWS=.counters.lan_pause_watchdog LOSSY=1 run Link.Pfc=3 Tuning.PfcWatchdog=2ms || return
	[[ $PAUSES != *" 0 ended"* ]] || why "$NOTE"
}

needs_two_processors() {
	WHY="this machine has one processor"
	return 77
}

if [ "$(nproc)" -lt 2 ]; then
	check "pause: a stalled worker and a host that goes on sending" needs_two_processors
	check_end
fi
lab_up
lab_line --rate 10G
lab_server $B_HOST --pfc 4
check "pause: without Pfc= a stalled worker's ring runs over" without_pfc
check "pause: with Pfc= it does not: the host waits" with_pfc
check "pause: the watchdog ends a pause" watchdog
check_end
