#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Edges on a stick, as docs/DEPLOY.md sets them up: a router of each site steers UDP 4791 for the other site to the edge's
# one LAN port, all other packets go by the routers' own line. Removed and restored with the commands of that page.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

# A router between host and edge: h0 to the host, e0 to the edge, c0 to the other site's router.
stick() { # site-letter site-number
	local r=r$1 edge=e$1 host=h$1 n=$2 other=$((3 - $2))
	lab_add_ns "$r"
	LAB_MORE_NS="$LAB_MORE_NS $r"
	lab_sysctl "$r" net.ipv4.ip_forward=1
	lab_unplug "$1"
	lab_veth "$host" rdma0 "$r" h0
	lab_veth "$r" e0 "$edge" lan0
	lab_ip "$host" addr add "10.101.$n.2/24" dev rdma0
	lab_offload "$host" rdma0 tso off gso off gro off
	lab_host_up "$host" "$n"
	lab_ip "$r" addr add "10.101.$n.1/24" dev h0
	lab_ip "$r" addr add "10.109.$n.1/30" dev e0
	lab_ip "$r" link set h0 up
	lab_ip "$r" link set e0 up
	lab_ip "$edge" addr add "10.109.$n.2/30" dev lan0
	lab_ip "$edge" link set lan0 up
	lab_ip "$edge" route add "10.101.$n.0/24" via "10.109.$n.1"
	lab_ip "$edge" route del "10.101.$other.0/24"
}

routers_line() {
	local i r
	lab_veth ra c0 rb c0
	for i in 1 2; do
		r=ra
		[ $i = 1 ] || r=rb
		lab_ip $r addr add "10.108.0.$i/30" dev c0
		lab_ip $r link set c0 up
		lab_ip $r route add "10.101.$((3 - i)).0/24" via "10.108.0.$((3 - i))"
		lab_ip $r route add table 4791 default via "10.109.$i.2"
	done
}

steer() { # router other-site's-prefix
	lab_ip "$1" rule add priority 103 nop
	lab_ip "$1" rule add priority 100 iif h0 to "$2" ipproto udp dport 4791 lookup 4791
	lab_ip "$1" rule add priority 101 iif h0 to "$2" ipproto udp sport 1-65534 goto 103
	lab_ip "$1" rule add priority 101 iif h0 to "$2" ipproto udp dport 1-65534 goto 103
	lab_ip "$1" rule add priority 102 iif h0 to "$2" ipproto udp blackhole
}

put_in() {
	steer ra 10.101.2.0/24
	steer rb 10.101.1.0/24
}

take_out() {
	local r p
	for r in ra rb; do
		for p in 102 101 101 100 103; do lab_ip $r rule del priority $p; done
		! lab_ip $r rule show | grep -q '^10[0-3]:' || why "rules are left" || return
	done
}

passed() { # router: packets that it has sent by the routers' own line
	lab_in "$1" cat /sys/class/net/c0/statistics/tx_packets
}

rdma_by_the_edges() {
	local before
	before=$(passed ra)
	lab_rcperf --size 65536 --iters 200 --op mix || why "contents, order or count are wrong" || return
	[ "$(lab_status a '.links[0].counters.flows_opened')" -gt 0 ] || why "edge a has seen no queue pair" || return
	NOTE="$(($(passed ra) - before)) packets of the endpoints' own TCP beside it"
	[ $(($(passed ra) - before)) -lt 200 ] || why "$NOTE" || return
}

all_else_by_the_routers() {
	local before
	before=$(passed ra)
	lab_in ha busybox ping -q -c 3 -i 0.1 -W 1 $B_HOST >/dev/null || why "no answer" || return
	[ $(($(passed ra) - before)) -ge 3 ] || why "they went another way"
}

datagram() { # bytes port
	head -c "$1" /dev/zero | lab_in ha socat -u -b "$1" - "UDP-SENDTO:$B_HOST:$2"
}

passing() { # command...: N, how many packets go by the routers' own line meanwhile
	N=$(passed ra)
	"$@"
	sleep 0.5
	N=$(($(passed ra) - N))
}

# No rule sees the port of a fragment. Of other UDP only whole datagrams pass; of other protocols fragments pass, too.
pieces_by_nobody() {
	passing datagram 20000 4791
	[ $N = 0 ] || why "$N pieces of a datagram to port 4791 went by the routers" || return
	passing datagram 100 4791
	[ $N = 0 ] || why "$N whole datagrams to port 4791 went by the routers" || return
	passing datagram 100 9999
	[ $N = 1 ] || why "$N packets of a whole datagram to port 9999 went by the routers" || return
	passing datagram 20000 9999
	[ $N = 0 ] || why "$N pieces of another UDP datagram went by the routers" || return
	passing lab_in ha busybox ping -q -c 1 -W 1 -s 20000 $B_HOST >/dev/null
	[ $N = 3 ] || why "$N of 3 pieces of a ping went by the routers"
}

pieces_by_the_routers() {
	passing datagram 20000 9999
	[ $N = 3 ] || why "$N of 3 pieces went by the routers"
}

taken_out() {
	local before packets
	take_out || return
	pieces_by_the_routers || return
	before=$(passed ra)
	packets=$(lab_status a '.links[0].counters.lan_rx_packets')
	lab_rcperf --size 65536 --iters 200 || why "contents, order or count are wrong" || return
	[ "$(lab_status a '.links[0].counters.lan_rx_packets')" = "$packets" ] || why "edge a has seen some of it" || return
	NOTE="$(($(passed ra) - before)) packets by the routers' line"
	[ $(($(passed ra) - before)) -gt 200 ] || why "$NOTE"
}

put_back() {
	put_in
	rdma_by_the_edges
}

lab_up
stick a 1
stick b 2
routers_line
LAB_EXTRA="Link.Barrier=off"
lab_line --rate $LAB_LINE_RATE
lab_line_set 300
lab_edges
lab_server $B_HOST
check "stick: the link comes up" lab_link_up
put_in
check "stick: RDMA goes by the edges, over 300 km" rdma_by_the_edges
check "stick: ping goes by the routers" all_else_by_the_routers
check "stick: pieces of RoCE go by nobody" pieces_by_nobody
check "stick: without the rules RDMA goes by the routers" taken_out
check "stick: with them by the edges again" put_back
check_end
