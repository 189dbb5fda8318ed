# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# pair.sh - runs a program in each guest and shows their results; sourced by run.sh.
#
# Needs: guest.sh, topology.sh, edge.sh; leaves outputs under $work/MODE-NAME.{a,b}.

# server_wait PORT: until guest b listens there by TCP or rdma_cm.
server_wait() {
	on_b -t 60 "for i in \$(seq 1500); do
		grep -qi ':$(printf %04X "$1") 0*:0000 0A' /proc/net/tcp /proc/net/tcp6 && exit 0
		rdma res show cm_id | grep 'state LISTEN' | grep -q ':$1 ' && exit 0
		usleep 30000; done; exit 1" >/dev/null
}

# cm_listens PORT: as soon as guest b listens there by rdma_cm, a client in guest a may connect (late_connect.c).
cm_listens() {
	on_b -t 120 "until rdma res show cm_id | grep 'state LISTEN' | grep -q ':$1 '; do usleep 30000; done" >/dev/null
	on_a -t 10 "touch /tmp/listens.$1" >/dev/null
}

# pair NAME SECONDS SERVER CLIENT: both must succeed. Output in $work/NAME.{a,b}; PORT and PEER are replaced.
pair() {
	local name=$1 t=$2 srv=$3 cli=$4 pid watch rc_a rc_b
	port=$((port + 1))
	srv=${srv//PORT/$port} cli=${cli//PORT/$port}
	cli=${cli//PEER/${peer:-$lan_addr_b}}
	echo "$srv" >"$work/$name.b.cmd"
	echo "$cli" >"$work/$name.a.cmd"
	on_b -t $((t + 5)) "$srv" >"$work/$name.b" 2>&1 &
	pid=$!
	server_wait $port || note "$name: server not seen listening"
	[[ $cli != *LATE_CONNECT* ]] || cm_listens $port &
	watch=$!
	on_a -t "$t" "$cli" >"$work/$name.a" 2>&1
	rc_a=$?
	kill $watch 2>/dev/null
	wait $watch 2>/dev/null
	if [ $rc_a != 0 ]; then
		sleep 1 # it may be ending by itself
		kill $pid 2>/dev/null
	fi
	wait $pid
	rc_b=$?
	pair_detail="exit $rc_a/$rc_b"
	[ $rc_a = 0 ] && [ $rc_b = 0 ]
}

# Both guests' and edges' view of a check that failed, for --logs.
keep_status() {
	local s
	for s in a b; do
		"$vm_build/vmrun" -n "$P-$s" -t 10 "ping -c 2 -W 1 10.1.0.1; ping -c 2 -W 1 10.2.0.1; arp -an
			ip -s link show lan0; cat /proc/net/snmp /proc/interrupts; dmesg | tail -n 20; ps
			rdma resource show qp; cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . *" \
			>"$work/$1.guest-$s" 2>&1
		in_ns $s ip -s neigh >"$work/$1.neigh-$s" 2>&1
		in_ns $s ip -s link >>"$work/$1.neigh-$s" 2>&1
	done
	[ "$mode" = direct ] && return
	for s in a b; do
		edge_status $s --flows --json >"$work/$1.status-$s.json" 2>/dev/null
	done
}

# Shows the output of a failed check.
show() {
	local s
	for s in a b; do
		echo "    --- guest $s: $(cat "$work/$1.$s.cmd")"
		tail -n 8 "$work/$1.$s" | sed 's/^/    | /'
	done
	[ "$mode" = direct ] && return
	for s in a b; do
		echo "    --- edge $s"
		tail -n 4 "$work/edge-$s.log" | sed 's/^/    | /'
	done
}

wanted() {
	[[ $1 =~ $only ]] || return 1
	[ "$(elapsed)" -lt $limit_s ] && return 0
	bad "$1" "not run: out of time ($limit_s s)"
	return 1
}

# finish NAME RESULT DETAIL
finish() {
	local result=$2
	line_alive || die "no line, nothing can be said"
	if [ "$mode" != direct ] && ! edges_alive; then
		result=1
		bad "$1" "longreachd died"
		use "$mode"
		return 1
	fi
	if [ "$result" = 0 ]; then
		ok "$1" "$3"
		return 0
	fi
	bad "$1" "$3"
	keep_status "$mode-$1"
	show "$mode-$1"
	[ -z "$stop" ] || die "stopping at the first failure"
	return "$result"
}
