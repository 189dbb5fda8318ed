# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# operations.sh - READs and ATOMICs: how fast, how often executed, with how many packets; sourced by run.sh.

# Medians of three, turn about, because the machine has other work.
compare_reads() { # NAME LOSS BOUND ITERATIONS_DIRECT
	local i name=$1
	wanted "$name" || return
	impair 300 "$2" 0 0
	for i in 1 2 3; do
		once direct 300 "$name" "$4" ib_read_bw -s 65536
		once near 300 "$name" 300 ib_read_bw -s 65536
	done
	verdict "$name, near / direct" "$(ratio "$(median_of near "$name")" "$(median_of direct "$name")")" "$3"
}

# Guests and edges share few processors, and what the edges take of them the guests lack. Here the line is the narrowest
# place; two READs fill it and do not overrun its queue.
compare_reads_slow_line() { # NAME BOUND
	local i name=$1
	wanted "$name" || return
	impair 300 0 0 0
	line_ctl set rate=100M
	for i in 1 2 3; do
		once direct 300 "$name" 200 ib_read_bw -s 65536 -o 2
		rate=97M once near 300 "$name" 200 ib_read_bw -s 65536 -o 2
	done
	line_ctl set rate=2G
	verdict "$name, near / direct" "$(ratio "$(median_of near "$name")" "$(median_of direct "$name")")" "$2"
}

suite_reads() {
	perf_seconds=120
	compare_reads_slow_line read-300km-100M 0.9
	compare_reads read-300km 0 0.9 300
	compare_reads read-300km-1% 1% 1 100
}

# Loses and doubles what the guests send to their edges, too: retries at every turn. (The shell there would take its own
# applet for a mere tc.)
lan_impair() { # NETEM ARGUMENTS, or nothing
	local s add="true"
	[ $# = 0 ] || add="modprobe sch_netem && /usr/sbin/tc qdisc add dev lan0 root netem $*"
	for s in a b; do
		"$vm_build/vmrun" -n "$P-$s" "/usr/sbin/tc qdisc del dev lan0 root 2>/dev/null; $add" ||
			die "no netem in guest $s"
	done
}

suite_atomics() {
	local m
	impair 300 1% 1%,300us 1%
	for m in ${modes:-near host}; do
		use "$m"
		check_rc atomics -P fadd,cas,mix -q 4 -b -n 200
		# Not mixed with others: on a LAN that loses, rxe completes READs and ATOMICs behind others without their
		# answers, also with nothing between the guests.
		lan_impair loss 1% duplicate 1%
		rc_seconds=200 check_rc atomics-bad-lan -P fadd,cas -q 2 -b -n 100 -r 5
		lan_impair
	done
}

# sent_by_a: packets that guest a's RDMA device has sent so far.
sent_by_a() { on_a "cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts"; }

# Mixed traffic, one way: what the requester sends in mode near for each packet in mode host. An ACK past an open READ
# or ATOMIC would show here: it makes the host send twice.
compare_packets() { # NAME LOSS
	local i m n name=$1 before
	wanted "$name" || return
	impair 300 "$2" 0 0
	for i in 1 2 3; do
		for m in host near; do
			use $m
			before=$(sent_by_a)
			check_rc "$name" -P mix -q 2 -n 300 -s 16384
			n=$(($(sent_by_a) - before))
			echo $n >>"$work/$m-$name.packets"
			note "$m $name: $n packets"
		done
	done
	verdict_at_most "$name, near / host" "$(ratio "$(median <"$work/near-$name.packets")" \
		"$(median <"$work/host-$name.packets")")" 1.1
}

suite_packets() {
	compare_packets mixed-packets 0
	compare_packets mixed-packets-1% 1%
}
