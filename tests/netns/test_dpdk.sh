#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Engine=dpdk with net_af_packet devices at both edges: hosts' packets cross although daemons are killed, and errors name what
# the machine lacks for the engine.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"
. "$(dirname "$0")/dpdk.sh"

# A device whose frames are larger than a slot of the link's buffer, so that packets are copied.
COPYING=net_af_packet0,iface=lan0,framesz=8192,blocksz=65536,framecnt=256
A_TCP=10.101.1.3

link() { # mode
	LAB_MODE=$1
	lab_relink 300
}

capacity() { # a|b
	lab_status "$1" '.links[0].buffer.from_lan.capacity_bytes'
}

# Blanks do not count as room for packets: the pool's capacity is smaller by the device's blanks, and by what the classes of
# their chunks have less than the best one.
places_lent() {
	local e whole=$1 now lent=
	for e in a b; do
		! grep -q 'longreachd copies packets' "$LAB_DIR/$e/log" || why "edge $e: $(grep -m 1 'longreachd copies packets' "$LAB_DIR/$e/log")" || return
		now=$(capacity $e)
		[ "$now" -le $((whole - 4352)) ] && [ "$now" -gt $((whole / 10 * 9)) ] ||
			why "edge $e: of a pool of $whole bytes $now are for packets" || return
		lent+=" $(((whole - now) / 4352))"
	done
	NOTE="blanks that devices have:$lent"
}

nothing_lent() {
	local e
	LAB_EXTRA="Link.Engine=dpdk Link.LanDevice=$COPYING"
	link near || return
	across -- --secs 0.7 --depth 32 || return
	for e in a b; do
		grep -q "LAN port lan0: longreachd copies packets .*: net_af_packet needs more than" "$LAB_DIR/$e/log" ||
			why "edge $e does not say that it copies" || return
		WHOLE=$(capacity $e)
	done
}

not_ours_since() { # a|b count
	[ "$(lab_status "$1" '.links[0].counters.lan_not_ours')" -gt "$2" ]
}

# Hosts' packets to the edge itself also come from the device, and only a device counts them.
by_devices() {
	local e before
	for e in a b; do
		grep -q "DPDK.*: device $DEVICE is open" "$LAB_DIR/$e/log" || why "edge $e has not opened its device" || return
		before=$(lab_status $e '.links[0].counters.lan_not_ours')
		for _ in 1 2 3; do
			lab_in h$e bash -c "echo >/dev/udp/10.101.$([ $e = a ] && echo 1 || echo 2).1/9" 2>/dev/null
		done
		lab_wait 2 not_ours_since $e "$before" || why "edge $e: what is not RDMA does not come off the device: $before" || return
	done
}

# As a bond does when it fails over: hosts learn the new address, and the device takes frames to it.
new_mac() {
	local before
	before=$(lab_in ea cat /sys/class/net/lan0/address)
	lab_ip ea link set lan0 address 02:00:00:00:0a:99
	lab_ip ha neigh flush dev rdma0
	LAB_PATIENCE=20 across -- --secs 0.7 --depth 32 || return
	lab_ip ea link set lan0 address "$before"
	lab_ip ha neigh flush dev rdma0
	LAB_PATIENCE=20 across -- --secs 0.7 --depth 32 || return
	[ "$(lab_status a '.links[0].counters.lan_port_rebinds')" = 0 ] || why "the port counts as one that was made again"
}

# The library's threads were started with capabilities.
no_rights() {
	local e pid task n=0
	for e in a b; do
		pid=$(lab_edge_child $e)
		for task in /proc/"$pid"/task/*; do
			n=$((n + 1))
			grep -q '^CapPrm:.0000000000000000$' "$task/status" && grep -q '^CapEff:.0000000000000000$' "$task/status" ||
				why "$(cat "$task/comm") has capabilities" || return
			grep -q '^Seccomp:.2$' "$task/status" || why "$(cat "$task/comm") may do any system call" || return
		done
	done
	NOTE="$n threads"
	grep -q '^eal-' /proc/"$pid"/task/*/comm || why "there is no thread of the EAL's"
}

killed() {
	local child e
	lab_line_set 300
	# shellcheck disable=SC2086 # several words
	lab_server $B_HOST --port 18517 $LAB_PATIENT
	# shellcheck disable=SC2086
	lab_load --port 18517 --depth 32 --op mix --bidir $LAB_PATIENT || why "no traffic" || return
	for e in a b a; do
		child=$(lab_edge_child $e)
		kill -9 "$child"
		lab_wait 5 lab_gone "$child"
		lab_link_up && lab_load_moves || why "no traffic after a kill at $e"
	done
	lab_load_end || why "contents, order or count are wrong" || return
	NOTE="$(lab_result .messages) messages, $(lab_result .here.retries) retries"
}

no_plugin() {
	"$LAB_DAEMONS/longreachd" --plugins "$LAB_DIR" --check-config "$LAB_DIR/a/link.conf" 2>"$LAB_DIR/said" &&
		why "it says that all is well"
	grep -q 'cannot load the plugin (package longreach-dpdk)' "$LAB_DIR/said" || why "it says: $(cat "$LAB_DIR/said")"
}

no_huge_pages() {
	if grep -qs '[1-9]' /sys/kernel/mm/hugepages/*/free_hugepages; then
		WHY="huge pages are free here"
		return 77
	fi
	daemon_with ""
	says 'no huge page is free'
	local status=$?
	daemon_with "$EAL"
	return $status
}

# Site A's host behind a virtio-user port, which testpmd joins to a cable of the host's; the edge serves it by net_vhost.
# lan0 keeps addresses and next hops, and nobody answers ARP. The endpoints' TCP goes by lan0: a port without a kernel
# interface has no route for it.
by_vhost() {
	local mac_host mac_edge
	[ -x "$(command -v dpdk-testpmd)" ] || { WHY="dpdk-testpmd is not here"; return 77; }
	lab_edges_stop
	lab_line_set 300
	lab_veth ha vx line p0
	lab_ip line link set p0 up
	lab_offload ha vx tso off gso off gro off
	lab_ip ha addr flush dev rdma0 scope global
	lab_ip ha addr add $A_TCP/24 dev rdma0
	lab_ip ha addr add $A_HOST/32 dev vx
	lab_ip ha link set vx up
	lab_ip ha rule add from $A_TCP lookup 99
	lab_ip ha route replace default via 10.101.1.1 dev rdma0 table 99
	lab_ip ha route replace default via 10.101.1.1 dev vx onlink
	mac_host=$(lab_in ha cat /sys/class/net/vx/address)
	mac_edge=$(lab_in ea cat /sys/class/net/lan0/address)
	lab_ip ha neigh replace 10.101.1.1 lladdr "$mac_edge" dev vx nud permanent
	lab_ip ea neigh replace $A_HOST lladdr "$mac_host" dev lan0 nud permanent
	LAB_EXTRA=
	LAB_EXTRA_A="Link.Engine=dpdk Link.LanDevice=net_vhost0,iface=$LAB_DIR/vhost.sock"
	LAB_EXTRA_B="Link.Engine=dpdk Link.LanDevice=$DEVICE"
	LAB_MODE=near
	lab_edges
	lab_link_up || return
	ip netns exec "$LAB_ID-line" stdbuf -oL dpdk-testpmd --no-huge -m 256 --no-shconf --no-pci --no-telemetry --lcores 0@0,1@1 \
		--vdev=net_af_packet0,iface=p0,framesz=8192,blocksz=65536,framecnt=256 \
		"--vdev=net_virtio_user0,path=$LAB_DIR/vhost.sock,queue_size=256,mrg_rxbuf=0" -- --forward-mode=io --auto-start \
		--mbuf-size=8448 --total-num-mbufs=4096 --max-pkt-len=1514 --stats-period=1000 </dev/null \
		>"$LAB_DIR/testpmd.log" 2>&1 &
	TESTPMD=$!
	lab_wait 20 grep -q 'RX P=1/Q=0' "$LAB_DIR/testpmd.log" || why "testpmd does not start" || return
	lab_server $B_HOST --port 18518 --timeout-ms 500
	LAB_DEV=vx LAB_PATIENCE=40 lab_rcperf --ctl-from $A_TCP --port 18518 --timeout-ms 500 --iters 1000 --depth 16 --op mix \
		--bidir || why "contents, order or count are wrong"
	kill $TESTPMD 2>/dev/null
	wait $TESTPMD 2>/dev/null
	[ -z "$WHY" ] || { tail -5 "$LAB_DIR/testpmd.log" | cut -c1-300; return 1; }
	NOTE="$(lab_result .messages) messages"
}

vhost_is_open() { # times
	[ "$(grep -c "device net_vhost0,iface=$LAB_DIR/again.sock is open" "$LAB_DIR/a/log")" = "$1" ] && lab_link_is_up
}

# The file of its socket stays when the process is killed, and goes when it ends.
vhost_again() {
	local child
	lab_edge_stop a
	LAB_EXTRA_A="Link.Engine=dpdk Link.LanDevice=net_vhost0,iface=$LAB_DIR/again.sock" LAB_EXTRA=
	lab_edge_start a
	lab_wait 10 vhost_is_open 1 || why "the device does not open: $(tail -1 "$LAB_DIR/a/log")" || return
	child=$(lab_edge_child a)
	kill -9 "$child"
	lab_wait 5 lab_gone "$child"
	lab_wait 10 vhost_is_open 2 || why "the device does not open after a kill: $(tail -1 "$LAB_DIR/a/log")" || return
	lab_edge_stop a
	[ ! -e "$LAB_DIR/again.sock" ] || why "its socket is left behind"
}

no_device() {
	LAB_EXTRA="Link.Engine=dpdk Link.LanDevice=net_nonsense0" LAB_EXTRA_A=
	lab_edge_stop a
	lab_edge_start a
	lab_wait 5 grep -q 'LAN port lan0: net_nonsense0: DPDK cannot open this device' "$LAB_DIR/a/log" ||
		why "the link does not say what is wrong with its device"
}

if [ -n "$MISSING" ]; then
	check "Engine=dpdk" skipped
	check_end
fi
LAB_DAEMONS=$LAB_BIN
lab_up
daemon_with "$EAL"
lab_line --rate $LAB_LINE_RATE
lab_server $B_HOST
lab_server $B_HOST6 --port 18516
check "dpdk: a device whose frames are longer than a blank copies" nothing_lent
lab_edges_stop
rm -f "$LAB_DIR"/[ab]/log
LAB_EXTRA="Link.Engine=dpdk Link.LanDevice=$DEVICE"
MODES=near
[ "${FULL:-}" != 1 ] || MODES="near host"
for mode in $MODES; do
	check "dpdk, $mode: the link comes up" link $mode
	check "dpdk, $mode: WRITE" across -- --secs 0.7 --depth 32
	check "dpdk, $mode: READ" across loss=0.1% -- --op read --iters 300 --size 20000
	check "dpdk, $mode: a mix, 4 QPs, both ways, everything wrong at once" across loss=1% reorder=2%,200us dup=1% \
		corrupt=0.1% -- --op mix --qps 4 --bidir --secs 0.7 --size 20000
	check "dpdk, $mode: QPs set up and down by CM" across loss=0.1% -- --cm --qps 4 --iters 200 --size 8192
	LAB_FROM=$A_HOST6 LAB_TO=$B_HOST6
	check "dpdk, $mode: IPv6" across loss=0.1% -- --port 18516 --secs 0.7 --depth 32
	LAB_FROM= LAB_TO=
done
check "dpdk: packets come off the devices" by_devices
check "dpdk: a new MAC address of a LAN port" new_mac
check "dpdk: they land in blanks of the link's buffer" places_lent "$WHOLE"
check "dpdk: no thread has rights" no_rights
check "dpdk: daemons killed under load" killed
check "dpdk: without the plugin" no_plugin
check "dpdk: without huge pages" no_huge_pages
check "dpdk: a host behind vhost-user" by_vhost
check "dpdk: a vhost-user device opens again" vhost_again
check "dpdk: a device that there is not" no_device
check_end
