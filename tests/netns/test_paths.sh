#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Other ways to be connected: IPv6 between the edges, a WAN of MTU 1500, VLANs, several workers.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

link() {
	lab_relink 300 loss=0.1%
}

goodput_note() {
	NOTE="$(lab_result '.goodput_gbps * 1000 | round / 1000') Gbit/s"
}

mixed_traffic() {
	link || return
	lab_rcperf --op mix --qps 2 --bidir --size 20000 --secs 1 "$@" || why "contents, order or count are wrong" || return
	goodput_note
}

over_ipv6() {
	LAB_FAMILY=6 mixed_traffic
}

over_1500() {
	LAB_WAN_MTU=1500
	lab_ip ea link set wan0 mtu 1500
	lab_ip eb link set wan0 mtu 1500
	mixed_traffic
	local status=$?
	lab_ip ea link set wan0 mtu 9000
	lab_ip eb link set wan0 mtu 9000
	LAB_WAN_MTU=9000
	return $status
}

tagged() {
	[ -n "$LAB_HAS_VLAN" ] || { NOTE="this kernel has no VLAN devices"; return 77; }
	lab_server $B_VLAN_HOST --port 18517
	LAB_DEV=rdma0.100 LAB_FROM=$A_VLAN_HOST LAB_TO=$B_VLAN_HOST mixed_traffic --port 18517
}

# Eight host pairs at once, so that every worker has lanes with traffic.
spread() {
	local i pids=
	LAB_EXTRA_A=Link.Workers=2 LAB_EXTRA_B=Link.Workers=3 link || return
	for i in 2 3 4 5 6 7 8 9; do
		lab_rcperf_between "10.101.1.$i" "10.101.2.$i" "$LAB_DIR/pair$i.json" --op mix --qps 2 --size 20000 --depth 8 \
			--secs 1.5 &
		pids="$pids $!"
	done
	for i in $pids; do
		wait "$i" || why "a host pair's contents, order or count are wrong"
	done
	[ -z "$WHY" ] || return
	NOTE="$(cat "$LAB_DIR"/pair*.json | jq -s 'map(.goodput_gbps) | add * 1000 | round / 1000') Gbit/s together"
}

lab_up
lab_line --rate $LAB_LINE_RATE
lab_server $B_HOST
check "WAN over IPv6" over_ipv6
check "WAN with MTU 1500" over_1500
check "hosts in a VLAN" tagged
for i in 3 4 5 6 7 8 9; do
	lab_server "10.101.2.$i"
done
check "two workers at one edge, three at the other, eight host pairs" spread
check_end
