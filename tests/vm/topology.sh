# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# topology.sh - two sites, a line between them; sourced by run.sh.
#
#   guest a            namespace P-a                    namespace P-w                namespace P-b           guest b
#  +---------+      +------------------+            +------------------+         +------------------+      +---------+
#  | lan0    |------| tap0        wan0 |------------| wa   wanline  wb |---------| wan0        tap0 |------|    lan0 |
#  | 10.1.0.2|      | 10.1.0.1         |            | (frames, layer 2)|         |         10.2.0.1 |      | 10.2.0.2|
#  | fd01::2 |      | fd01::1  10.9.0.1|            |                  |         |10.9.0.2  fd02::1 |      | fd02::2 |
#  +---------+      +------------------+            +------------------+         +------------------+      +---------+
#                    longreachd or the                                            longreachd or the
#                    kernel's forwarding                                          kernel's forwarding
#
# In mode direct the two edge namespaces route. With longreachd in them all packets but RoCE are still routed so.
#
# With $engine=vhost lan0 of a guest is a port of longreachd's own, and no kernel hears what it sends. TCP takes another NIC
# of the guest, tcp0, which has the MAC address of lan0. tap0 leads there, by a bridge from port0, the interface of LanPort=.
#
# Needs: $P (prefix of names), $work (scratch), $tools (programs that were built), $vm_build, $engine, guest.sh.

lan_addr_a=10.1.0.2
lan_addr_b=10.2.0.2
lan_port=tap0
[ "$engine" != vhost ] || lan_port=port0

# Do not use it for programs that are ended by their pid: in the background the function is a separate shell.
in_ns() { ip netns exec "$P-$1" "${@:2}"; }

topo_up() {
	local s
	for s in a w b; do
		ip netns add "$P-$s"
		ip -n "$P-$s" link set lo up
	done
	for s in a b; do
		ip link add wan0 netns "$P-$s" mtu 9000 type veth peer name "w$s" netns "$P-w" mtu 9000
		# Frames on the line are as on a wire: whole and with their checksums.
		in_ns $s ethtool -K wan0 tx off tso off gso off gro off >/dev/null 2>&1 || true
		in_ns $s sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
		ip -n "$P-$s" tuntap add tap0 mode tap
		ip -n "$P-$s" link set tap0 mtu 9000 up
		ip -n "$P-$s" link set wan0 up
		in_ns w sysctl -qw "net.ipv6.conf.w$s.disable_ipv6=1"
		ip -n "$P-w" link set "w$s" up
	done
	topo_site a 1 2 1 2
	topo_site b 2 1 2 1
}

# The edge's MAC address at a vhost-user port, where nobody answers ARP.
port_mac() { echo "52:54:00:0$1:00:f0"; }

# vhost_site SITE: port0, joined to the guest's tcp0.
vhost_site() {
	local ns=$P-$1 i
	ip -n "$ns" link add port0 address "$(port_mac "$1")" mtu 9000 type veth peer name port0-end mtu 9000
	ip -n "$ns" link add br0 type bridge forward_delay 0 mcast_snooping 0
	# With br_netfilter the link's own rules would drop what crosses the bridge.
	in_ns "$1" sysctl -qw net.bridge.bridge-nf-call-iptables=0 net.bridge.bridge-nf-call-ip6tables=0 2>/dev/null || true
	in_ns "$1" ethtool -K port0 tx off tso off gso off gro off >/dev/null 2>&1 || true
	for i in tap0 port0-end; do
		ip -n "$ns" link set $i master br0
	done
	for i in br0 tap0 port0-end port0; do
		[ $i = port0 ] || in_ns "$1" sysctl -qw "net.ipv6.conf.$i.disable_ipv6=1"
		ip -n "$ns" link set $i up
	done
}

# topo_site SITE OWN OTHER OWN_WAN OTHER_WAN: addresses and routes.
topo_site() {
	local ns=$P-$1
	[ "$engine" != vhost ] || vhost_site "$1"
	ip -n "$ns" addr add "10.$2.0.1/24" dev "$lan_port"
	ip -n "$ns" addr add "fd0$2::1/64" dev "$lan_port" nodad
	# tcp0 of a guest answers ARP for lan0's address, and no neighbour solicitation.
	[ "$engine" != vhost ] || ip -n "$ns" neigh replace "fd0$2::2" lladdr "52:54:00:0$1:00:01" dev port0 nud permanent
	ip -n "$ns" addr add "10.9.0.$4/30" dev wan0
	ip -n "$ns" addr add "fd09::$4/64" dev wan0 nodad
	ip -n "$ns" route add "10.$3.0.0/24" via "10.9.0.$5"
	ip -n "$ns" -6 route add "fd0$3::/64" via "fd09::$5"
}

line_up() {
	ip netns exec "$P-w" "$tools/wanline" --ctl "$work/line.ctl" --json "$work/line.json" --max-delay 30ms wa wb \
		>"$work/line.log" 2>&1 &
	echo $! >"$work/line.pid"
	local i
	for i in $(seq 600); do
		[ -S "$work/line.ctl" ] && return
		sleep 0.1
	done
	echo "wanline did not start:" >&2
	cat "$work/line.log" >&2
	return 1
}

# Checks the emulator itself: it runs, answers and lost no frames by itself.
line_alive() {
	if ! kill -0 "$(cat "$work/line.pid")" 2>/dev/null || ! line_ctl show; then
		echo "the line emulator is gone:" >&2
		tail -n 5 "$work/line.log" >&2
		return 1
	fi
}

line_ctl() { "$tools/wanline" ctl "$work/line.ctl" "$@" >>"$work/line.log" 2>&1; }

# line_set KM LOSS REORDER DUP, each as wanline takes it.
line_set() {
	line_ctl set "km=$1" "loss=$2" "reorder=$3" "dup=$4"
	line_km=$1
}

stop_pid() {
	[ -f "$1" ] || return 0
	local pid i
	pid=$(cat "$1")
	rm -f "$1"
	kill "$pid" 2>/dev/null || return 0
	for i in $(seq "${2:-300}"); do
		kill -0 "$pid" 2>/dev/null || return 0
		sleep 0.1
	done
	echo "pid $pid did not end when told to" >&2
	kill -9 "$pid" 2>/dev/null
	return 1
}

guests_up() {
	local s
	for s in a b; do
		local guest_vhost='' guest_more_kargs=''
		[ "$engine" != vhost ] || guest_vhost=$work/vhost-$s.sock guest_more_kargs="lr.gwmac=$(port_mac $s)"
		# shellcheck disable=SC2046
		guest_start $s "$P-$s" tap0 52:54:00:0$s:00 $(guest_addresses $s)
	done
	guest_wait a "$P-a" 180 && guest_wait b "$P-b" 180
}

guest_addresses() { # a|b
	case $1 in
	a) echo 10.1.0.2/24 10.1.0.1 fd01::2/64 fd01::1 ;;
	b) echo 10.2.0.2/24 10.2.0.1 fd02::2/64 fd02::1 ;;
	esac
}

pcap_up() { # DIR
	local s i
	mkdir -p "$1"
	for s in a b; do
		for i in tap0 wan0; do
			ip netns exec "$P-$s" dumpcap -q -i $i -s 0 -w "$1/$s-$i.pcapng" >/dev/null 2>&1 &
			echo $! >"$work/pcap-$s-$i.pid"
		done
	done
	sleep 1
}

topo_down() {
	local f s
	edges_down >/dev/null 2>&1
	for f in "$work"/pcap-*.pid "$work/line.pid"; do stop_pid "$f"; done
	guest_stop a
	guest_stop b
	for s in a w b; do
		ip netns del "$P-$s" 2>/dev/null
	done
	return 0
}
