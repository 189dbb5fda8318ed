#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# chaos.sh - two edges under traffic and random faults around them. Root.
#
#   O=build/gcc tests/netns/chaos.sh [steps] [seed] [fault...]      500 steps of all faults, a seed of its own
#
# A step breaks something at one edge or both, holds the fault for a moment, and mends it. Traffic goes on all the time:
# verified RC, and after each run's last completion a TCP message that everything has been done. Checks after every step:
#
#   - no TCP message came before its bytes (Barrier=pair), no byte was wrong, none missing unless an edge named the flow;
#   - the line, which looks into each frame, has carried no unsealed RoCEv2 packet and no payload of hosts;
#   - within 2 s `status --check` reported whether the link works;
#   - within $BACK_WITHIN_MS of the mending the link was up at both edges, and a fresh connection worked.
#
# These times are by a clock that stands still while a program waits for a processor (lab_free_ms).
#
# All checks run after each step, even if one has failed, and a table at the end counts failures by fault.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"
. "$(dirname "$0")/chaos_table.sh"

STEPS=${1:-500}
SEED=${2:-$(date +%s)}
FAULTS=("${@:3}")
RANDOM=$SEED
PROBE_PORT=18601
: "${BACK_WITHIN_MS:=3000}"

one_of() {
	local n=$((RANDOM % $# + 1))
	ONE=${!n}
}

other() { # a|b
	[ "$1" = a ] && echo b || echo a
}

site_of() { # a|b
	[ "$1" = a ] && echo 1 || echo 2
}

# --- faults: break_NAME edge, mend_NAME edge, and the result of `status --check` at that edge meanwhile ---
#
# works: the link goes on, or the daemon restores it within 2 s; fails: the link cannot go on; either: both are allowed.

declare -A SAYS=(
	[flush]=works
	[cable]=fails
	[carrier]=fails
	[wan_carrier]=fails
	[lan_mtu]=fails
	[wan_mtu]=fails
	[neighbours]=works
	[wan_address]=fails
	[keys]=works
	[new_keys]=either # the session goes on, and --check says that it is about to end
	[config]=works
	[clock]=works
	[clock_child]=fails
	[descriptors]=works
	[disk]=fails
	[killed]=fails
	[child]=works
	[stopped]=fails
	[frozen]=either
	[both]=fails
	[line_cut]=either
	[line_bad]=either
)

break_flush() { lab_in "e$1" nft flush ruleset; }
mend_flush() { :; }

break_cable() { lab_unplug "$1"; }
mend_cable() {
	lab_plug_in "$1"
	[ "$1" = a ] || servers_anew
}

break_carrier() { lab_ip "h$1" link set rdma0 down; }
mend_carrier() { lab_host_up "h$1" "$(site_of "$1")"; }

break_wan_carrier() { lab_ip line link set "w$1" down; }
mend_wan_carrier() {
	lab_ip line link set "w$1" up
	lab_edge_wan "e$1" "$(site_of "$1")"
}

break_lan_mtu() { lab_ip "e$1" link set lan0 mtu 1500; }
mend_lan_mtu() { lab_ip "e$1" link set lan0 mtu 9000; }

break_wan_mtu() { lab_ip "e$1" link set wan0 mtu 1400; }
mend_wan_mtu() {
	lab_ip "e$1" link set wan0 mtu 9000
	lab_edge_wan "e$1" "$(site_of "$1")"
}

break_neighbours() {
	lab_ip "e$1" neigh flush dev lan0
	lab_ip "e$1" neigh flush dev wan0
}
mend_neighbours() { :; }

break_wan_address() { lab_ip "e$1" addr del "192.0.2.$(site_of "$1")/24" dev wan0; }
mend_wan_address() { lab_edge_wan "e$1" "$(site_of "$1")"; }

# The other edge's key replaces this edge's key; a reload must refuse it, and the running key must stay.
break_keys() {
	cp "$LAB_DIR/keys/$1/link.key" "$LAB_DIR/key.saved"
	cp "$LAB_DIR/keys/$(other "$1")/link.key" "$LAB_DIR/keys/$1/link.key"
	! lab_client "$1" reload >"$LAB_DIR/reload.out" 2>&1 || BROKEN="the reload took a key that does not match"
}
mend_keys() {
	cp "$LAB_DIR/key.saved" "$LAB_DIR/keys/$1/link.key"
	lab_client "$1" reload >"$LAB_DIR/reload.out" 2>&1 || BROKEN="the reload refuses: $(cat "$LAB_DIR/reload.out")"
}

# Keys of another CA, at this edge first: the session goes on until the other edge has them, too.
break_new_keys() {
	rm -rf "$LAB_DIR/new"
	"$LAB_BIN/longreach" keygen link --dir "$LAB_DIR/new" >/dev/null || BROKEN="keygen failed"
	take_new_keys "$1"
}
mend_new_keys() { take_new_keys "$(other "$1")"; }

take_new_keys() { # edge
	cp "$LAB_DIR/new/$1"/* "$LAB_DIR/keys/$1/"
	lab_client "$1" reload >"$LAB_DIR/reload.out" 2>&1 || BROKEN="the reload refuses: $(cat "$LAB_DIR/reload.out")"
}

# A half-written file.
break_config() {
	local path
	path=$(lab_conf_path "$1")
	cp "$path" "$path.saved"
	head -c "$(($(stat -c %s "$path") * (RANDOM % 80 + 10) / 100))" "$path.saved" >"$path"
	lab_client "$1" reload >"$LAB_DIR/reload.out" 2>&1 && BROKEN="the reload took half a file: $(head -c 200 "$LAB_DIR/reload.out")"
}
mend_config() {
	local path
	path=$(lab_conf_path "$1")
	mv "$path.saved" "$path"
	lab_client "$1" reload >"$LAB_DIR/reload.out" 2>&1 || BROKEN="the reload refuses: $(cat "$LAB_DIR/reload.out")"
}

DAY_S=86400
# Minutes to decades, forwards and back, in seconds; the keys are good for ten years.
CLOCK_JUMPS=(60 -60 3600 -7200 $((40 * DAY_S)) $((-40 * DAY_S)) $((3 * 365 * DAY_S)) $((-3 * 365 * DAY_S))
	$((20 * 365 * DAY_S)) $((-20 * 365 * DAY_S)))

# The edge's wall clock jumps, not this machine's. The daemon goes on, counts the days of its certificate by the new clock,
# and reports when the certificate has expired.
break_clock() {
	one_of "${CLOCK_JUMPS[@]}"
	CLOCK_JUMP=$ONE
	CLOCK_DAYS=$(days_left "$1")
	CLOCK_SESSIONS=$(lab_status "$1" '.links[0].peer.sessions')
	lab_clock "$1" "$CLOCK_JUMP"
	lab_wait 2 days_have_moved "$1" ||
		BROKEN="$(days_left "$1") days left, $CLOCK_DAYS before a jump of $((CLOCK_JUMP / DAY_S)) days"
	[ "$CLOCK_JUMP" -lt $((3650 * DAY_S)) ] || lab_wait 2 said_expired "$1" || BROKEN="expired, and the log says nothing"
	NOTE="by $CLOCK_JUMP s"
}
mend_clock() {
	[ "$(lab_status "$1" '.links[0].peer.sessions')" = "$CLOCK_SESSIONS" ] || BROKEN="a jump of $CLOCK_JUMP s ended the session"
	lab_clock "$1" 0
}

days_left() { lab_status "$1" '.links[0].certificate.days_left'; }

days_have_moved() { # a day more or less: when the day ends
	local d=$(($(days_left "$1") + CLOCK_JUMP / DAY_S - CLOCK_DAYS))
	[ $d -ge -1 ] && [ $d -le 1 ]
}

said_expired() {
	tail -c "+$(($([ "$1" = a ] && echo "$LOG_A" || echo "$LOG_B") + 1))" "$LAB_DIR/$1/log" | grep -q 'has expired'
}

# A clock at which the certificates are not valid, and a process that has to read them.
break_clock_child() {
	one_of $((20 * 365 * DAY_S)) $((-20 * 365 * DAY_S))
	lab_clock "$1" "$ONE"
	kill -9 "$(lab_edge_child "$1")"
	sleep 0.1
	NOTE="by $ONE s"
	as_systemd "$1"
}
mend_clock_child() { lab_clock "$1" 0; }

# The daemon gets no more descriptors; it must go on with those it has, and may refuse a reload.
break_descriptors() {
	local pid
	pid=$(lab_edge_child "$1")
	FILES_BEFORE=$(prlimit --pid "$pid" --nofile --noheadings --output SOFT)
	prlimit --pid "$pid" --nofile="$(ls "/proc/$pid/fd" | wc -l)": || BROKEN="its limit cannot be set"
	lab_client "$1" reload >"$LAB_DIR/reload.out" 2>&1
	:
}
mend_descriptors() {
	prlimit --pid "$(lab_edge_child "$1")" --nofile="${FILES_BEFORE// /}": || BROKEN="its limit cannot be set again"
}

# No room where the buffers are, and a restart.
break_disk() {
	lab_edge_stop "$1" KILL
	rm -f "$LAB_SHM/$1"/*.arena # owed packets are lost, and must be named
	mount -t tmpfs -o size=1M none "$LAB_SHM/$1"
	lab_edge_start "$1"
}
# The daemon has its own mount namespace: an unmount here does not reach it, but the file system is the same.
mend_disk() { mount -o remount,size=1G "$LAB_SHM/$1"; }

break_killed() { lab_edge_stop "$1" KILL; }
mend_killed() { lab_edge_start "$1"; }

# The process that carries packets; the privileged one starts it again.
break_child() {
	kill -9 "$(lab_edge_child "$1")"
	sleep 0.1
	as_systemd "$1"
}
mend_child() { :; }

break_stopped() { lab_edge_stop "$1"; }
mend_stopped() { lab_edge_start "$1"; }

break_both() {
	lab_edge_stop a KILL
	lab_edge_stop b KILL
}
mend_both() { lab_edges; }

break_frozen() { kill -STOP "$(lab_edge_child "$1")"; }
mend_frozen() { kill -CONT "$(lab_edge_child "$1")"; }

break_line_cut() { lab_line_ctl cut; }
mend_line_cut() { lab_line_ctl uncut; }

break_line_bad() { lab_line_ctl set loss=5% reorder=5%,2ms dup=2% corrupt=0.5%; }
mend_line_bad() { lab_line_ctl set loss=0 reorder=0 dup=0 corrupt=0; }

# --- traffic ---

servers_anew() {
	lab_servers_stop
	lab_server $B_HOST --drain-s 2
	lab_server $B_HOST --drain-s 2 --port $PROBE_PORT
}

# Runs one test after the other, each with its own file, until $LAB_DIR/enough exists. In the background.
traffic() {
	local n=0
	while [ ! -e "$LAB_DIR/enough" ]; do
		n=$((n + 1))
		LAB_PATIENCE=200 lab_rcperf_between $A_HOST $B_HOST "$LAB_DIR/traffic.$n.json" --op mix --qps 4 --size 20000 \
			--secs 1 --adaptive-retrans --timeout-ms 200
		echo $? >"$LAB_DIR/traffic.$n.status"
	done
}

traffic_begins() {
	rm -f "$LAB_DIR"/traffic.* "$LAB_DIR/enough"
	traffic &
	TRAFFIC_PID=$!
}

traffic_ends() {
	touch "$LAB_DIR/enough"
	wait $TRAFFIC_PID
}

# The sum of these numbers in the results of B's host (there) or of both hosts for the step's tests.
told_by() { # there|both name
	local who='.there'
	[ "$1" = there ] || who='.here, .there'
	jq -se "map(objects | $who | objects | .$2 | numbers) | add // 0" "$LAB_DIR"/traffic.*.json "$LAB_DIR/probe.json" 2>/dev/null ||
		echo 0
}

# Flows whose bytes an edge reported in this step as lost or perhaps lost.
named() {
	grep -qsE '\[(flow_failed|flow_in_doubt)\]' "$LAB_DIR"/[ab]/log.step
}

# Messages that A's host has completed and B's host has not got, in tests that both have ended.
traffic_is_sound() {
	local lost early status
	STEP_MSNS=$(told_by both msn_wrong)
	[ "$STEP_MSNS" = 0 ] || found msn "$STEP_MSNS answers named a wrong MSN"
	! check_wrong_bytes || found lost "contents, order or count are wrong"
	lost=$(told_by there missing) early=$(told_by there missing_at_done)
	[ "$lost" = 0 ] || named || found lost "$lost messages were completed and are missing, and no edge says a word"
	[ "$early" = 0 ] || named || found early "a word came before $early of its messages"
	for status in "$LAB_DIR"/traffic.*.status; do
		[ "$(cat "$status")" != 124 ] || found other "a test hung"
	done
}

# --- a step ---

# Records a finding; the step goes on with its other checks.
found() { # kind sentence
	STEP_KINDS+=("$1")
	WHY="${WHY:+$WHY; }${*:2}"
}

edge_says() { # edge works|fails
	if [ "$2" = works ]; then
		lab_client "$1" status --check >"$LAB_DIR/check.out" 2>&1
	else
		! lab_client "$1" status --check >"$LAB_DIR/check.out" 2>&1
	fi
}

told() { # fault edge
	local says=${SAYS[$1]}
	[ "$says" != either ] || return 0
	[ "$says" = fails ] || sleep 0.5
	lab_within 2 edge_says "$2" "$says" ||
		found untrue "$1 at $2: --check does not say that it $says: $(head -c 200 "$LAB_DIR/check.out")"
}

# Each try has twice the time of the one before.
probe_passes() {
	LAB_PATIENCE=$PROBE_S lab_rcperf_between $A_HOST $B_HOST "$LAB_DIR/probe.json" --port $PROBE_PORT --size 4096 --iters 20 && return
	PROBE_S=$((2 * PROBE_S))
	return 1
}

both_work() {
	edge_says a works && edge_says b works
}

# A parent whose child died six times within a minute ends, and systemd starts it again: there is none here.
as_systemd() { # a|b
	lab_edge_alive "$1" && return
	[ -n "${LAB_EDGE_PID[$1]:-}" ] || return
	if ! tail -2 "$LAB_DIR/$1/log" | grep -q 'within a minute: stopping'; then
		found other "edge $1 has ended by itself"
		return 1
	fi
	wait "${LAB_EDGE_PID[$1]}"
	sleep 1 # RestartSec=
	lab_edge_start "$1"
	NOTE="$NOTE; edge $1 was started anew"
}

# Each check repeats every 50 ms, beside the traffic that has to recover as well.
back() {
	local start up
	as_systemd a && as_systemd b || return
	start=$(lab_free_ms)
	lab_wait 10 both_work || { found late "not up again: $(cat "$LAB_DIR/check.out")"; return; }
	up=$(($(lab_free_ms) - start))
	PROBE_S=2
	lab_wait 10 probe_passes || { found late "no traffic"; return; }
	STEP_MS=$(($(lab_free_ms) - start))
	NOTE="$NOTE; up after $up ms, back after $STEP_MS ms"
	[ $STEP_MS -lt "$BACK_WITHIN_MS" ] || found late "up $up ms after it was mended, back only after $STEP_MS ms"
}

line_is_sealed() {
	local roce payload
	read -r roce payload < <(lab_line_ctl stats | jq -r '"\(.ab.seen_roce + .ba.seen_roce) \(.ab.seen_payload + .ba.seen_payload)"')
	[ "$roce" = 0 ] || found unsealed "$roce RoCEv2 packets crossed the line unsealed"
	[ "$payload" = 0 ] || found unsealed "$payload frames with hosts' payload crossed the line unsealed"
}

mark_logs() {
	LOG_A=$(wc -c <"$LAB_DIR/a/log") LOG_B=$(wc -c <"$LAB_DIR/b/log")
}

cut_logs() {
	tail -c "+$((LOG_A + 1))" "$LAB_DIR/a/log" >"$LAB_DIR/a/log.step"
	tail -c "+$((LOG_B + 1))" "$LAB_DIR/b/log" >"$LAB_DIR/b/log.step"
}

step() { # fault edge hold-ms
	BROKEN=
	mark_logs
	rm -f "$LAB_DIR/probe.json"
	traffic_begins
	sleep 0.4
	"break_$1" "$2"
	told "$1" "$2"
	sleep "$(awk "BEGIN { print $3 / 1000 }")"
	"mend_$1" "$2"
	back
	traffic_ends
	cut_logs
	[ -z "$BROKEN" ] || found other "$BROKEN"
	traffic_is_sound
	line_is_sealed
	[ -z "$WHY" ]
}

# After a red step: restarts everything, so that the next step is judged alone.
start_over() {
	lab_edges_stop
	LAB_EDGE_BAD=
	lab_line_stop
	lab_clock a 0
	lab_clock b 0
	lab_line --rate $LAB_LINE_RATE --km 300
	servers_anew
	lab_edges
	lab_link_up
}

LAB_EXTRA=Link.Barrier=pair
[ ${#FAULTS[@]} -gt 0 ] || mapfile -t FAULTS < <(printf '%s\n' "${!SAYS[@]}" | sort)
lab_up
lab_own_clocks
lab_line --rate $LAB_LINE_RATE --km 300
servers_anew
lab_edges
lab_link_up || exit 1
echo "SEED=$SEED, $STEPS steps of: ${FAULTS[*]}"
for ((i = 1; i <= STEPS; i++)); do
	one_of "${FAULTS[@]}"
	fault=$ONE
	one_of a b
	edge=$ONE
	hold=$((RANDOM % 1200))
	before=$CHECK_FAILED
	STEP_KINDS=() STEP_MS='' STEP_MSNS=0
	check "$i: $fault at $edge for $hold ms" step "$fault" "$edge" "$hold"
	[ "$before" = "$CHECK_FAILED" ] || [ ${#STEP_KINDS[@]} -gt 0 ] || STEP_KINDS=(other)
	table_step "$fault" "$STEP_MS" "$STEP_MSNS" "${STEP_KINDS[@]}"
	[ "$before" = "$CHECK_FAILED" ] && continue
	start_over && continue
	table_print "$BACK_WITHIN_MS"
	exit 1
done
table_print "$BACK_WITHIN_MS"
check_end
