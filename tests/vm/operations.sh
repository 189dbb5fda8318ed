# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# operations.sh - READs and ATOMICs: how fast, how often executed, with how many packets; sourced by run.sh.

# Medians of three, measured in turns, because the machine has other work. Each run lasts some seconds, since a host's timeout
# takes 70 ms.
reads_by_turns() { # NAME DIRECT_READS NEAR_READS READS_AT_A_TIME
	local i
	for i in 1 2 3; do
		once direct 300 "$1" "$2" ib_read_bw -s 65536 -o "$4"
		once near 300 "$1" "$3" ib_read_bw -s 65536 -o "$4"
	done
}

near_by_direct() { # NAME
	ratio "$(median_of near "$1")" "$(median_of direct "$1")"
}

# Half of the throughput without a rate limit, in steps of 50 Mbit/s: this machine carries it with edges on it.
line_mbps() { # NAME of what was measured without
	median <"$work/near-$1.gbps" | awk '{ m = int($1 * 1000 / 2 / 50) * 50; print m < 100 ? 100 : m }'
}

# Five READs at a time fill the line, and its queue takes all of them.
reads_on_a_line() { # NAME MBPS
	local reads=$(($2 * 4000000 / 8 / 65536)) rate=$(($2 * 99 / 100))M
	line_ctl set "rate=$2M" queue=1M
	reads_by_turns "$1" $reads $reads 5
	line_ctl set rate=0 queue=10ms
}

# In the field the line is the bottleneck, not the processors at its ends. Here guests, edges and emulator share two processors:
# without a rate of the line the figure shows the processor time that the edges take from the guests. That figure has a limit of
# its own; the promised ratio is checked on a line with a rate.
suite_reads() {
	local name=read-300km mbps
	perf_seconds=120
	if wanted $name; then
		impair 300 0 0 0
		reads_by_turns $name 3000 3000 16
		verdict "$name, no rate: near / direct" "$(near_by_direct $name)" 0.6
		mbps=$(line_mbps $name)
		reads_on_a_line $name-${mbps}M "$mbps"
		verdict "$name, a line of $mbps Mbit/s: near / direct" "$(near_by_direct $name-${mbps}M)" 0.9
	fi
	if wanted $name-1%; then
		impair 300 1% 0 0
		reads_by_turns $name-1% 400 3000 16
		verdict "$name, 1 % loss: near / direct" "$(near_by_direct $name-1%)" 1
	fi
}

# Also loses and duplicates packets from the guests to their edges, for many retries. (A plain `tc` would be the shell's own
# applet there.)
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
		# Not mixed with others: on a LAN that loses, rxe completes READs and ATOMICs behind others without
		# their answers, also with nothing between the guests.
		lan_impair loss 1% duplicate 1%
		rc_seconds=200 check_rc atomics-bad-lan -P fadd,cas -q 2 -b -n 100 -r 5
		lan_impair
	done
}

# sent_by_a: packets that guest a's RDMA device has sent so far.
sent_by_a() { on_a "cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts"; }

# Mixed traffic, one way: the requester's packets in mode near for each packet in mode host. An ACK past an open READ or ATOMIC
# would show here, because it makes the host send twice.
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
