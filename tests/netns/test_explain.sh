#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# longreach explain: the test breaks or slows down queue pairs in one way after the other. explain must name each cause, at the
# edge that can know it, while the program runs and after its end; for healthy queue pairs it must name none.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

A_TCP=10.101.1.9 # TCP of programs whose data takes other addresses
B_TCP=10.101.2.9

# Each test has its own pair of hosts, $A and $B, so that no test sees flows of another.
hosts() { # number at site A, number at site B
	A=10.101.1.$1 B=10.101.2.$2
	LAB_FROM=$A LAB_TO=$B
}

explain() { # a|b words...
	lab_in "e$1" "$LAB_BIN/longreach" --control "$LAB_DIR/$1/control" explain "${@:2}" >"$LAB_DIR/explain" 2>"$LAB_DIR/explain.err"
	STATUS=$?
}

found() { # the names of what was found, each once
	jq -r '.findings[].cause' "$LAB_DIR/explain" 2>/dev/null | sort -u | tr '\n' ' '
}

# The findings soon match the pattern.
finds() { # a|b pattern words...
	local edge=$1 pattern=$2 i
	shift 2
	for ((i = 0; i < 20; i++)); do
		explain "$edge" "$@" --json
		# shellcheck disable=SC2053 # a pattern
		[ $STATUS = 1 ] && [[ "$(found)" = $pattern ]] && break
	done
	NOTE=$(jq -r '.findings[0].what // "nothing"' "$LAB_DIR/explain" | cut -c1-100)
	# shellcheck disable=SC2053
	[[ "$(found)" = $pattern ]] || why "exit code $STATUS, it finds: $(found)$(head -1 "$LAB_DIR/explain.err")"
}

# Only this cause; or this cause first of several.
names() { finds "$1" "$2 " "${@:3}"; }       # a|b cause words...
names_first() { finds "$1" "$2 *" "${@:3}"; } # a|b cause words...

says_nothing() { # a|b words...
	explain "$@" --json
	[ $STATUS = 0 ] && [ -z "$(found)" ] || why "edge $1, exit code $STATUS, it finds: $(found)$(jq -r '.findings[0].what' "$LAB_DIR/explain")"
}

beside() { # rcperf-options... -- command...
	local options=() status
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	lab_load "${options[@]}" >/dev/null 2>&1
	"$@"
	status=$?
	lab_load_end KILL 2>/dev/null
	return $status
}

server() { # options...
	lab_servers_stop
	lab_server "$B" "$@"
}

relink() { # km; of $LAB_*
	lab_edges_stop
	lab_line_set "$1"
	lab_edges
	lab_link_up
}

# --- healthy ---

healthy() {
	local edge status=0
	hosts 2 2
	server
	lab_load --op mix --qps 4 --size 20000 --depth 8 --rate 0.1 || why "no traffic" || return
	for edge in a b; do
		says_nothing $edge $A && says_nothing $edge || status=1
	done
	lab_load_end || why "contents, order or count are wrong" || return
	[ $status = 0 ] || return
	says_nothing a "$A>$B" && says_nothing b $B
}

healthy_text() {
	explain a "$A"
	NOTE=$(head -1 "$LAB_DIR/explain")
	[ $STATUS = 0 ] && [[ $NOTE = "nothing is wrong with "* ]] || why "exit code $STATUS: $NOTE"
}

# Every form of a flow's name finds the flow; other words are refused.
words() {
	local qpn id
	qpn=$(lab_client a status --flows --json | jq -r '[.links[0].flows[] | select(.side == "near" and .pairing != "learning")][0] | .dest_qpn')
	id=$(lab_client a status --flows --json | jq -r "[.links[0].flows[] | select(.side == \"near\" and .dest_qpn == $qpn)][0].id")
	local word words=("$(printf 0x%x "$qpn")" "$B:$qpn" "near:$id" "$A->$B:$qpn")
	[ -z "${FULL:-}" ] || words+=("$qpn" "[$B]:$qpn" "$A>$B")
	for word in "${words[@]}"; do
		says_nothing a "$word" || return
		[ "$(jq .flows_looked_at "$LAB_DIR/explain")" -ge 1 ] || why "$word: no flow" || return
	done
	says_nothing a link "$B" || return
	explain a nosuch $B
	[ $STATUS = 2 ] || why "a link that does not exist: exit code $STATUS" || return
	explain a 10.101.1.2:0x1000000
	[ $STATUS = 2 ] || why "a QPN of 25 bits: exit code $STATUS" || return
	explain a --error 99
	[ $STATUS = 2 ] || why "--error 99: exit code $STATUS"
}

list_is_documented() {
	explain a --list
	cut -d: -f1 "$LAB_DIR/explain" | sort >"$LAB_DIR/listed"
	sed -n '/^.SH WHAT EXPLAIN FINDS/,/^.SH /s/^\.B \([a-z_]*\)$/\1/p' "$LAB_ROOT/etc/man/longreach.1" | sort >"$LAB_DIR/manual"
	NOTE="$(wc -l <"$LAB_DIR/listed") causes"
	diff "$LAB_DIR/listed" "$LAB_DIR/manual" >"$LAB_DIR/out" || why "$(grep -m1 '^[<>]' "$LAB_DIR/out")"
}

no_daemon() {
	explain a --control "$LAB_DIR/nobody"
	[ $STATUS = 3 ] || why "exit code $STATUS"
}

# --- never seen ---

nothing_known() {
	names a route 10.101.1.2 || return
	names b not_seen 10.101.1.2 || return
	names a address 192.168.77.1 || return
	names a not_seen 0x123456
}

drop_roce() { # namespace interface: what leaves there of RoCEv2 does not arrive
	lab_in "$1" nft "add table netdev around
		add chain netdev around out { type filter hook egress device \"$2\" priority 0; }
		add rule netdev around out udp dport 4791 drop" 2>"$LAB_DIR/out" || {
		WHY="no egress hook here: $(head -1 "$LAB_DIR/out")"
		return 77
	}
}

pass_roce() { # namespace
	lab_in "$1" nft delete table netdev around
}

# The requester's data takes another route than its TCP, and neither comes here.
no_route() {
	hosts 3 3
	drop_roce ha rdma0 || return
	server --ctl $B_TCP
	beside --ctl $B_TCP --ctl-from $A_TCP --secs 2 --timeout-ms 10 -- names a route $A --error 12
	local r=$?
	pass_roce ha
	return $r
}

no_roce() {
	hosts 4 4
	drop_roce ha rdma0 || return
	server
	beside --secs 2 --timeout-ms 10 -- names a gid $A
	local r=$?
	pass_roce ha
	return $r
}

# --- nobody answers ---

no_way_back() {
	hosts 5 5
	drop_roce hb rdma0 || return
	server --ctl $B_TCP
	local r
	beside --ctl $B_TCP --ctl-from $A_TCP --secs 5 -- names b return_route $B --error IBV_WC_RETRY_EXC_ERR
	r=$?
	[ $r != 0 ] || names a no_answer "$A" || r=1
	pass_roce hb
	return $r
}

# TCP of the same host comes through: its route back is right.
no_such_qp() {
	hosts 6 6
	drop_roce hb rdma0 || return
	server
	local r
	beside --secs 4 -- names b qp_or_gid $B
	r=$?
	pass_roce hb
	return $r
}

no_neighbour() {
	hosts 7 7
	server --ctl $B_TCP
	lab_in eb nft "add table netdev silent
		add chain netdev silent in { type filter hook ingress device \"lan0\" priority 0; }
		add rule netdev silent in arp saddr ip $B drop"
	lab_ip eb neigh del "$B" dev lan0 2>/dev/null
	local r
	beside --ctl $B_TCP --ctl-from $A_TCP --secs 6 -- names b no_neighbour $B
	r=$?
	lab_in eb nft delete table netdev silent
	return $r
}

# The requester's timeout is shorter than the round trip.
gives_up_early() {
	hosts 2 3
	server
	lab_rcperf --secs 2 --depth 1 --timeout-ms 1 --retry 1 >/dev/null 2>&1
	names a timeout "$A>$B" --error 12
}

# --- refused, not ready, gone ---

# The same queue pair begins again: the fault of the life before is remembered, with the time since then.
access() {
	local n
	hosts 2 4
	server --qpn 0x888
	lab_rcperf --iters 200 --depth 4 --size 4096 --bad-rkey-at 100 >/dev/null 2>&1
	names a access "$A>$B" --error 10 && names b access "$A>$B" --error 10 || return
	server --qpn 0x888
	lab_rcperf --iters 50 --depth 4 --size 4096 --psn 0x500000 >/dev/null 2>&1
	explain a "$A>$B:0x888" --json
	n=$(jq '[.findings[] | select(.cause == "access" and .ended and .ended_age_ns > 0)] | length' "$LAB_DIR/explain")
	NOTE=$(jq -r '.findings[0] | "\(.flow), ended \((.ended_age_ns // 0) / 1e9) s ago"' "$LAB_DIR/explain")
	[ "$n" = 1 ] || why "$n findings of the life before: $(found)"
}

both_name() { # cause
	names a "$1" "$A>$B" && names b "$1" "$A>$B"
}

not_ready() {
	hosts 2 5
	server --rnr-timer-ms 20 --freeze-ms 30000 --freeze-after 20 --recv-depth 8
	beside --op send --size 4096 --depth 16 -- both_name rnr
}

# The responder's program dies with its queue pairs, its host lives.
peer_gone() {
	hosts 2 6
	server
	local r
	lab_load --depth 8 --rate 0.2 >/dev/null 2>&1
	kill -9 $LAB_SERVER_PIDS
	wait $LAB_SERVER_PIDS 2>/dev/null
	LAB_SERVER_PIDS=
	both_name peer_gone
	r=$?
	lab_load_end KILL 2>/dev/null
	[ $r = 0 ] || return
	explain a "$A>$B" --error 12 # the program is gone as well
	grep -q "^error 12, IBV_WC_RETRY_EXC_ERR: " "$LAB_DIR/explain" || why "it does not say what error 12 is" || return
	grep -q "^link: peer_gone: " "$LAB_DIR/explain" || why "afterwards it says $(sed -n 2p "$LAB_DIR/explain" | cut -c1-100)"
}

acks_unheard() {
	hosts 3 2
	server
	local r
	lab_load --depth 4 --timeout-ms 20 --retry 7 --rate 0.2 >/dev/null 2>&1
	drop_roce ea lan0
	sleep 0.7
	names a acks_unheard "$A>$B" --error 12
	r=$?
	pass_roce ea
	lab_load_end KILL 2>/dev/null
	return $r
}

line_cut() {
	hosts 3 4
	server
	local r
	lab_load --depth 8 --rate 0.2 >/dev/null 2>&1
	lab_line_ctl cut
	sleep 1.2
	names a line_down "$A>$B" --error 12
	r=$?
	lab_line_ctl uncut
	lab_load_end KILL 2>/dev/null
	return $r
}

# --- slow ---

lan_loss() {
	hosts 3 5
	server --drop 0.01
	beside --depth 16 --size 16384 --rate 0.05 -- names b lan_loss "$A>$B"
}

window() {
	hosts 3 6
	server
	beside --depth 8 --size 4096 -- names a window "$A>$B"
}

line_full() {
	hosts 3 7
	server
	# held-off hosts sometimes repeat early
	beside --qps 2 --depth 64 -- names_first a line_full "$A>$B"
}

# --- a flow's time line, and all of it ---

# Every packet of the flow has its row with its result at both edges, without payload bytes; nothing is traced afterwards.
time_line() {
	local edge n pids=
	hosts 4 2
	server --qpn 0x4242
	for edge in a b; do
		lab_in "e$edge" "$LAB_BIN/longreach" --control "$LAB_DIR/$edge/control" trace link "$A>$B:0x4242" --seconds 8 --json \
			>"$LAB_DIR/trace.$edge" 2>"$LAB_DIR/trace.$edge.err" &
		pids="$pids $!"
	done
	sleep 1
	lab_rcperf --iters 20 --depth 2 --size 8192 >/dev/null || why "the program failed" || return
	lab_client a trace link "$A>$B:0x4242" --seconds 1 >/dev/null 2>"$LAB_DIR/trace.second"
	grep -q "is being traced" "$LAB_DIR/trace.second" || why "a second trace at once: $(head -1 "$LAB_DIR/trace.second")" || return
	# shellcheck disable=SC2086 # several
	wait $pids
	n=$(grep -c '"what":"in","side":"near"' "$LAB_DIR/trace.a")
	[ "$n" -ge 40 ] || why "edge a: $n requests came, of 40: $(head -1 "$LAB_DIR/trace.a.err")" || return
	grep -q '"what":"out","side":"near".*"syndrome":31' "$LAB_DIR/trace.a" || why "edge a: no ACK to the requester" || return
	grep -q '"ceiling_reason":"learning"' "$LAB_DIR/trace.a" || why "edge a: never learning" || return
	grep -q '"ceiling_reason":"committed"' "$LAB_DIR/trace.a" || why "edge a: the mode's point is never named" || return
	grep -q '"what":"state","side":"near".*"delivered"' "$LAB_DIR/trace.a" || why "edge a: no report of the other edge" || return
	grep -q '"what":"in","side":"near".*"drop":"none"' "$LAB_DIR/trace.a" || why "edge a: no packet was taken" || return
	[ "$(grep -c '"what":"out","side":"far"' "$LAB_DIR/trace.b")" -ge 40 ] || why "edge b: too few requests left" || return
	grep -q '"what":"in","side":"far".*"syndrome":31' "$LAB_DIR/trace.b" || why "edge b: no ACK of the responder" || return
	grep -q '"missed"' "$LAB_DIR/trace.a" && why "edge a: rows were missed" && return
	NOTE="$(wc -l <"$LAB_DIR/trace.a") and $(wc -l <"$LAB_DIR/trace.b") rows"
}

time_line_text() {
	hosts 4 2
	lab_client a trace "near:99999" --seconds 1 >"$LAB_DIR/out" 2>&1 && why "a flow that is not there: exit code 0" && return
	lab_client a trace "$A>$B:0x4242" --seconds 0.5 >"$LAB_DIR/out" 2>&1
	STATUS=$?
	NOTE=$(head -1 "$LAB_DIR/out" | cut -c1-100)
	[ $STATUS = 0 ] && [[ $NOTE = *packet*PSN* ]] || why "exit code $STATUS: $NOTE"
}

# All facts of the flow, each with an entry in the manual.
whole_flow() {
	local name
	hosts 4 2
	lab_client a flow "$A>$B:0x4242" >"$LAB_DIR/out" 2>&1 || why "exit code $?: $(head -1 "$LAB_DIR/out")" || return
	NOTE="$(wc -l <"$LAB_DIR/out") lines"
	grep -q "acks may reach  *all that is committed" "$LAB_DIR/out" || why "it does not say how far ACKs reach" || return
	lab_client a flow "$A>$B:0x4242" --json >"$LAB_DIR/out" || why "--json: exit code $?" || return
	for name in $(jq -r '.links[0].flows[0].facts | keys[]' "$LAB_DIR/out"); do
		case $name in ceiling_*) continue ;; esac
		grep -qx "\.B $name" "$LAB_BUILD/longreach-counters.7" || why "$name is not in longreach-counters(7)" || return
	done
	lab_client a flow 10.101.1.77 >/dev/null 2>&1
	STATUS=$?
	[ $STATUS = 1 ] || why "a host that is not there: exit code $STATUS"
}

lab_up
lab_line --km 300
lab_edges
lab_link_up || lab_die "no link"
check "nothing known: route, the other site, a foreign address, a number" nothing_known
check "every cause of --list is in the manual" list_is_documented
check "no daemon" no_daemon
check "healthy queue pairs: nothing, during and after" healthy
check "healthy queue pairs: in words" healthy_text
check "a flow by QPN, host and QPN, hosts, number" words
check "route: the requester's RoCEv2 takes another way (error 12)" no_route
check "gid: its TCP comes, its RoCEv2 does not" no_roce
check "return_route: the responder's answers take another way" no_way_back
check "qp_or_gid: its TCP comes, its queue pair does not answer" no_such_qp
check "no_neighbour: its address is nobody's" no_neighbour
check "access (error 10); and of a life of the queue pair that is over" access
check "rnr" not_ready
check "peer_gone: its program was killed (error 12)" peer_gone
check "acks_unheard: a filter in front of the requester" acks_unheard
check "lan_loss" lan_loss
check "trace FLOW: its packets at both edges, and why" time_line
check "trace FLOW: in words" time_line_text
check "flow: all that is known, each fact in the manual" whole_flow
check "line_down: the line is cut" line_cut
LAB_MODE=host LAB_RATE=50M relink 1000
check "window: too little outstanding for 1000 km" window
check "line_full" line_full
check "timeout: shorter than the line (error 12)" gives_up_early
check_end
