# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# explain.sh - faults that break or slow down a queue pair, and the causes that `longreach explain` names; sourced by run.sh.
#
# A fault is planted before its programs start or while they run. Then explain runs at an edge, while the programs run or after
# their end, and must name this cause and no other. Programs whose data must be unreachable while their TCP works use second
# addresses of the two guests for TCP, 10.1.0.3 and 10.2.0.3.

x="-d rxe0 -x 1 -F -p PORT"

ask_why() { # a|b words...
	in_ns "$1" "$daemon/longreach" --control "$work/edge-$1.sock" explain "${@:2}" --json >"$work/explain.json" 2>"$work/explain.err"
}

causes() { jq -r '.findings[].cause' "$work/explain.json" 2>/dev/null | sort -u | tr '\n' ' '; }

# explained EDGE CAUSE WORDS...: explain names that cause and no other, within some seconds.
explained() {
	local edge=$1 cause=$2 i
	shift 2
	for i in 1 2 3 4 5 6; do
		ask_why "$edge" "$@"
		[ "$(causes)" = "$cause " ] && return 0
	done
	return 1
}

# A program's last output in a few words: the completion status that it saw, if any.
last_words() { # NAME
	grep -hoE 'transport retry counter exceeded|RNR retry counter exceeded|remote access error|remote invalid request error|Failed status [0-9]+|told by .*' \
		"$work/$1.a" | head -n 1 | cut -c1-70
}

end_programs() {
	on_a -t 5 'killall -q -CONT ib_write_bw ib_send_bw rccheck; killall -q -KILL ib_write_bw ib_send_bw rccheck; true' >/dev/null 2>&1
	on_b -t 5 'killall -q -CONT ib_write_bw ib_send_bw rccheck; killall -q -KILL ib_write_bw ib_send_bw rccheck; true' >/dev/null 2>&1
}

# why NAME EDGE CAUSE WORDS -- SECONDS SERVER CLIENT [PLANT...]: the programs run for SECONDS at most; PLANT runs a moment after
# their start. SECONDS 0: explain runs after the programs have ended by themselves.
why() {
	local name=$1 edge=$2 cause=$3 words=$4 seconds=$6 server=$7 client=$8 pid rc=1
	shift 8
	wanted "$name" || return
	pair "$mode-$name" "$((seconds > 0 ? seconds : 60))" "$server" "$client" >/dev/null 2>&1 &
	pid=$!
	if [ "$seconds" = 0 ]; then
		wait $pid
	elif [ $# = 0 ]; then
		sleep 4
	else
		wait_traffic
	fi
	[ $# = 0 ] || "$@"
	# shellcheck disable=SC2086
	explained "$edge" "$cause" $words && rc=0
	end_programs
	wait $pid 2>/dev/null
	finish "$name" $rc "edge $edge: $([ $rc = 0 ] || echo "finds $(causes), ")$(jq -r '.findings[0].what // "nothing"' "$work/explain.json" |
		cut -c1-90); program: $(last_words "$mode-$name")"
	port=$((port + 1)) # pair() counts in a shell of its own
}

# Waits until the programs' set-up, which also uses RDMA (perftest -R), is over.
wait_traffic() {
	local i
	for i in $(seq 100); do
		[ "$(edge_status a --json 2>/dev/null | jq '.links[0].counters.lan_rx_bytes')" -gt 1000000 ] 2>/dev/null && break
		sleep 0.2
	done
	sleep 1
}

# The host at edge b answers no ARP, and announces itself to no machine.
arp_silent() { # on|off
	if [ "$1" = off ]; then
		in_ns b nft delete table netdev silent
		return
	fi
	in_ns b nft "add table netdev silent
		add chain netdev silent in { type filter hook ingress device \"tap0\" priority 0; }
		add rule netdev silent in arp saddr ip $lan_addr_b drop"
	ip -n "$P-b" neigh del "$lan_addr_b" dev tap0 2>/dev/null
}

in_guest() { "$vm_build/vmrun" -n "$P-$1" -t 10 "ip() { /usr/sbin/ip \"\$@\"; }; $2" >"$work/plant" 2>&1 || note "not planted: $(tail -n 1 "$work/plant")"; }

nothing_wrong() { # NAME EDGE WORDS...
	wanted "$1" || return
	ask_why "${@:2}"
	[ "$(causes)" = "" ] && [ "$(jq .flows_looked_at "$work/explain.json")" -gt 0 ]
	finish "$1" $? "edge $2: $(causes)$(jq .flows_looked_at "$work/explain.json") flows looked at"
}

kill_server() { on_b -t 5 'killall -KILL ib_write_bw' >/dev/null 2>&1; sleep 1; }
stop_server() { on_b -t 5 'killall -STOP ib_send_bw' >/dev/null 2>&1; sleep 1; }
cut_line() { line_ctl cut; sleep 1; }

suite_explain() {
	local a=$lan_addr_a b=$lan_addr_b t="ib_write_bw $x -s 65536 -n 4000" b2=10.2.0.3 gid
	command -v jq >/dev/null || die "no jq"
	tuning=${tuning:-GiveUp=2s}
	impair 300 0 0 0
	use near
	in_guest b "ip addr add $b2/24 dev lan0"
	in_guest a "ip addr add 10.1.0.3/24 dev lan0; ip route add $b2/32 via 10.1.0.1 src 10.1.0.3"

	# never seen: the program hangs, as rxe repeats for ever
	in_guest a "ip route add blackhole $b/32"
	why route a route "$a --error 12" -- 12 "$t" "$t $b2"
	in_guest a "ip route del blackhole $b/32"

	# a gateway that is there and leads nowhere: without an answer to ARP the server could not connect its queue pair at all
	in_guest b "ip neigh replace 10.2.0.99 lladdr 02:00:00:00:00:63 nud permanent dev lan0; ip route add $a/32 via 10.2.0.99"
	why route-back b return_route "$b --error 12" -- 14 "$t" "$t $b2"
	in_guest b "ip route del $a/32 via 10.2.0.99; ip neigh del 10.2.0.99 dev lan0"

	use near
	arp_silent on
	why no-neighbour b no_neighbour "$b --error 12" -- 14 "$t" "$t $b2"
	arp_silent off

	# a GID whose address no link covers
	use near
	in_guest a "ip addr add 192.168.77.1/24 dev lan0; usleep 500000"
	gid=$(on_a -t 5 'for i in 0 1 2 3 4 5 6 7; do grep -q "ffff:c0a8:4d01" /sys/class/infiniband/rxe0/ports/1/gids/$i && echo $i; done' | head -n 1)
	why address a address "192.168.77.1 --error 12" -- 8 "$t" "ib_write_bw -d rxe0 -x ${gid:-3} -F -p PORT -s 65536 -n 4000 $b2"
	in_guest a "ip addr del 192.168.77.1/24 dev lan0"

	# healthy, and the same programs
	check_perf healthy ib_write_bw -s 65536 -n 200
	nothing_wrong healthy-a a $a
	nothing_wrong healthy-b b $b

	local rc="rccheck -p PORT --timeout 40 --early-acks"
	use near
	why access a access "$a --error 10" -- 0 "rccheck -S -p PORT --timeout 40" \
		"$rc --drill refuse-busy --refusal rkey -n 32 -d 8 -s 16384 $b"
	use near
	why operational b operational "$b --error 11" -- 0 "rccheck -S -p PORT --timeout 40" \
		"$rc --drill refuse-busy --refusal length -n 32 -d 8 -s 4096 $b"
	use near
	why peer-gone-rccheck b peer_gone "$b --error 12" -- 0 "rccheck -S -p PORT --timeout 40" \
		"$rc --drill refuse-busy --refusal gone -n 32 -d 8 -s 16384 $b"
	use near
	why peer-gone a peer_gone "$a --error 12" -- 20 "ib_write_bw $x -s 65536 -n 20000" "ib_write_bw $x -s 65536 -n 20000 $b" kill_server
	use near
	why rnr b rnr "$b --error 13" -- 20 "ib_send_bw $x -s 16384 -n 20000 -r 64" "ib_send_bw $x -s 16384 -n 20000 -r 64 $b" stop_server

	# perftest's own error 12: connected by rdma_cm, its retry count is finite
	use near
	why line-down a line_down "$a --error 12" -- 40 "ib_write_bw $x -R --retry_count=1 -s 65536 -n 20000" \
		"ib_write_bw $x -R --retry_count=1 -s 65536 -n 20000 $b" cut_line
	perftest_error_12

	use near
	lan_trouble on
	why lan-loss b lan_loss "$a>$b" -- 14 "ib_write_bw $x -s 65536 -n 20000" "ib_write_bw $x -s 65536 -n 20000 $b" sleep 3
	lan_trouble off
	rate=20M use near
	why line-full a line_full "$a --error 12" -- 14 "ib_write_bw $x -s 65536 -n 20000" "ib_write_bw $x -s 65536 -n 20000 $b"
	impair 1000 0 0 0
	use host
	why window a window "$a" -- 16 "ib_write_bw $x -s 4096 -t 16 -n 100000" "ib_write_bw $x -s 4096 -t 16 -n 100000 $b" sleep 2
	impair 2500 0 0 0
	use host
	why timeout a timeout "$a --error 12" -- 0 "rccheck -S -p PORT --timeout 20" \
		"rccheck -p PORT --timeout 20 --stall 8 -P write -n 16 --retry 1 --ack-timeout 8 $b"
}

# The line stays cut until perftest has given up: checks its status, and that explain still knows the cause.
perftest_error_12() {
	local name=perftest-error-12 n=near-perftest-error-12 pid rc=1
	wanted $name || return
	line_ctl uncut
	use near
	pair $n 60 "ib_write_bw $x -R --retry_count=1 -s 65536 -n 20000" \
		"ib_write_bw $x -R --retry_count=1 -s 65536 -n 20000 $lan_addr_b" >/dev/null 2>&1 &
	pid=$!
	wait_traffic
	in_guest b "ip route add blackhole $lan_addr_a/32"
	wait $pid
	explained a peer_gone "$lan_addr_a" --error 12 && grep -q 'Failed status 12' "$work/$n.a" && rc=0
	in_guest b "ip route del blackhole $lan_addr_a/32"
	end_programs
	finish $name $rc "edge a: $(causes)$(jq -r '.findings[0].what // "nothing"' "$work/explain.json" | cut -c1-70); program: $(last_words $n)"
	port=$((port + 1))
}
