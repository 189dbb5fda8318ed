#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# WanDevice=: datagrams between the edges by net_af_packet devices, at both edges and at one. Hosts' packets cross, ECN is read
# and written, the kernel keeps all other frames, and unusable devices are refused with a reason.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"
. "$(dirname "$0")/dpdk.sh"

LAN="Link.Engine=dpdk Link.LanDevice=$DEVICE"

link() {
	lab_relink 300
}

# Counters of the kernel's UDP: datagrams sent, datagrams without a socket.
kernel_udp() { # a|b
	lab_in "e$1" awk '/^Udp: [0-9]/ { print $5, $3 }' /proc/net/snmp
}

counter() { # a|b name
	lab_status "$1" ".links[0].counters.$2"
}

drops() { # a|b name
	lab_status "$1" ".links[0].drops.$2"
}

# The kernel sends none of these datagrams. It drops its copy of each received one without an ICMP message.
by_devices() {
	local e sent noport sent_then noport_then
	for e in a b; do
		grep -q "DPDK.*: device $WAN_DEVICE is open" "$LAB_DIR/$e/log" || why "edge $e has not opened its device" || return
		read -r sent noport <<<"$(kernel_udp $e)"
		eval "sent_$e=$sent noport_$e=$noport"
	done
	lab_line_set 300
	lab_rcperf --iters 400 --size 65536 --depth 32 || why "contents, order or count are wrong" || return
	for e in a b; do
		read -r sent noport <<<"$(kernel_udp $e)"
		sent_then=sent_$e noport_then=noport_$e
		[ $((sent - ${!sent_then})) -lt 20 ] || why "edge $e: the kernel has sent $((sent - ${!sent_then})) datagrams" || return
		[ "$noport" = "${!noport_then}" ] || why "edge $e: the kernel says that nobody has the port" || return
	done
	NOTE="kernel's datagrams: $((sent - ${!sent_then}))"
}

# The device also receives ARP and the control channel's TCP, which belong to the kernel.
kernel_keeps() {
	local before after
	before=$(counter a wan_not_ours)
	lab_edge_stop b
	lab_ip ea neigh flush dev wan0
	lab_ip eb neigh flush dev wan0
	lab_edge_start b
	lab_link_up || why "the control channel does not come back" || return
	across -- --iters 100 --size 8192 || return
	after=$(counter a wan_not_ours)
	[ "$after" -gt "$before" ] || why "what is the kernel's does not come off the device: $before, $after"
	[ "$(drops a wan_foreign)" = 0 ] || why "datagrams of the other edge are foreign here"
}

ecn_used() {
	local e
	across -- --op mix --bidir --secs 1.5 --depth 64 --size 65536 || return
	for e in a b; do
		[ "$(lab_status $e '.links[0].paths[0].ecn')" = used ] ||
			why "edge $e: ECN is '$(lab_status $e '.links[0].paths[0].ecn')'" || return
	done
}

bad_checksums() {
	across corrupt=2% -- --secs 1 --depth 32 || return
	NOTE="$(drops a wan_bad_checksum), $(drops b wan_bad_checksum) datagrams"
	[ "$(drops b wan_bad_checksum)" -gt 0 ] || why "no datagram had a wrong checksum"
	[ "$(drops b wan_bad_length)" -lt "$(drops b wan_bad_checksum)" ] || why "wrong lengths: $(drops b wan_bad_length)"
}

# Without a neighbour there is no next hop: this is counted, and the kernel resolves the neighbour.
cut_and_back() {
	local e=a
	lab_line_set 300
	# shellcheck disable=SC2086 # several words
	lab_server $B_HOST --port 18517 $LAB_PATIENT
	# shellcheck disable=SC2086
	lab_load --port 18517 --depth 32 --op mix --bidir $LAB_PATIENT || why "no traffic" || return
	lab_ip ea link set wan0 down
	sleep 1
	lab_edge_wan ea 1
	lab_link_up && lab_load_moves || why "no traffic after the cut"
	kill -9 "$(lab_edge_child $e)"
	lab_link_up && lab_load_moves || why "no traffic after the kill"
	lab_load_end || why "contents, order or count are wrong: $(tail -1 "$LAB_DIR/rcperf.err")" || return
	NOTE="$(lab_result .messages) messages, $(lab_result .here.retries) retries"
}

# The link releases its devices, and opens them again.
restarted() {
	lab_client a restart link >/dev/null || why "edge a does not restart its link" || return
	lab_link_up || why "the link does not come back" || return
	across loss=0.1% -- --op mix --bidir --secs 0.7 --size 20000
}

refused() { # words WanDevice= more-lines
	LAB_EXTRA="$LAN Link.WanDevice=$2 ${3:-}"
	mkdir -p "$LAB_DIR/a"
	lab_conf a >"$LAB_DIR/a/link.conf"
	says "$1"
}

refusals() {
	refused "would hear neither ARP nor the control channel" "net_vhost1,iface=/tmp/none.sock" &&
		refused "would hear neither ARP nor the control channel" 0000:3b:00.0 &&
		refused "do not hold packets of MTU=9000: expected framesz=9088 or more" net_af_packet1,iface=wan0 &&
		refused "no such interface: wan9" "${WAN_DEVICE/wan0/wan9}" &&
		refused "names 2 devices for 1 paths" "$WAN_DEVICE Link.WanDevice=net_af_packet2,iface=wan0,framesz=9216"
}

if [ -n "$MISSING" ]; then
	check "WanDevice=" skipped
	check_end
fi
LAB_DAEMONS=$LAB_BIN
lab_up
daemon_with "$EAL"
lab_line --rate $LAB_LINE_RATE
lab_server $B_HOST
lab_server $B_HOST6 --port 18516
check "WanDevice=: what cannot work is refused" refusals
LAB_EXTRA="$LAN Link.WanDevice=$WAN_DEVICE"
check "WanDevice=: the link comes up" link
check "WanDevice=: WRITE" across -- --secs 0.7 --depth 32
check "WanDevice=: READ" across loss=0.1% -- --op read --iters 300 --size 20000
check "WanDevice=: a mix, 4 QPs, both ways, everything wrong at once" across loss=1% reorder=2%,200us dup=1% corrupt=0.1% \
	-- --op mix --qps 4 --bidir --secs 0.7 --size 20000
LAB_FROM=$A_HOST6 LAB_TO=$B_HOST6
check "WanDevice=: hosts by IPv6" across loss=0.1% -- --port 18516 --secs 0.7 --depth 32
LAB_FROM= LAB_TO=
check "WanDevice=: datagrams go by the devices alone" by_devices
check "WanDevice=: the kernel keeps what is its own" kernel_keeps
check "WanDevice=: wrong checksums are counted" bad_checksums
check "WanDevice=: interface down, and a daemon killed, under load" cut_and_back
check "WanDevice=: the link is restarted" restarted
LAB_EXTRA="$LAN Link.WanDevice=$WAN_DEVICE Path.RateControl=auto Path.SourcePorts=4"
check "WanDevice=: with RateControl=auto the link comes up" link
check "WanDevice=: ECN is written and read" ecn_used
LAB_EXTRA=$LAN LAB_EXTRA_A=Link.WanDevice=$WAN_DEVICE LAB_FAMILY=6
check "WanDevice=: by IPv6 at one edge, sockets at the other" link
check "WanDevice=: by IPv6 at one edge, a mix both ways" across loss=0.1% -- --op mix --bidir --secs 0.7 --size 20000
check_end
