#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# init.sh - /init of a test guest. The kernel command line has its addresses:
#   lr.addr=ADDR/LEN lr.gw=GW [lr.addr6=ADDR/LEN lr.gw6=GW] [lr.wan=ADDR/LEN]
#   [lr.gwmac=MAC: of the gateway, where nobody answers ARP]
# The NIC whose MAC ends in :01 is the LAN with RDMA on it, the one ending in :02 is the agent's, one ending in :03 is an
# edge's way to the other site, and one ending in :04 takes all TCP, of a LAN that carries nothing but RoCE.
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run

arg() { tr ' ' '\n' </proc/cmdline | sed -n "s|^$1=||p"; }

# On a LAN that carries nothing but RoCE virtio_net keeps the last packets that it has sent until there are others, and rxe
# waits for them when a queue pair is destroyed: programs would not end.
net_options=
[ -z "$(arg lr.gwmac)" ] || net_options=napi_tx=0
for m in $(cat /etc/modules); do
	# shellcheck disable=SC2046
	modprobe "$m" $([ "$m" != virtio_net ] || echo "$net_options") || echo "init: modprobe $m failed"
done

# The shell would take its own applet.
ip() { /usr/sbin/ip "$@"; }

nic_by_tail() {
	for n in /sys/class/net/*; do
		case $(cat "$n/address") in *:"$1") basename "$n" ;; esac
	done
}

lan=$(nic_by_tail 01)
mgmt=$(nic_by_tail 02)
ip link set lo up
ip link set "$lan" name lan0
ip link set "$mgmt" name mgmt0
# Addresses are never seen twice here: no need to wait for duplicate detection.
echo 0 >/proc/sys/net/ipv6/conf/lan0/accept_dad
ip addr add "$(arg lr.addr)" dev lan0
ip link set lan0 up
ip route add default via "$(arg lr.gw)"
if [ -n "$(arg lr.addr6)" ]; then
	ip -6 addr add "$(arg lr.addr6)" dev lan0 nodad
	ip -6 route add default via "$(arg lr.gw6)" dev lan0
fi
tcp=$(nic_by_tail 04)
if [ -n "$tcp" ]; then
	addr=$(arg lr.addr) addr6=$(arg lr.addr6)
	ip neigh replace "$(arg lr.gw)" lladdr "$(arg lr.gwmac)" dev lan0 nud permanent
	ip neigh replace "$(arg lr.gw6)" lladdr "$(arg lr.gwmac)" dev lan0 nud permanent
	ip link set "$tcp" name tcp0
	ip link set tcp0 address "$(cat /sys/class/net/lan0/address)" mtu 9000 up
	ip neigh replace "$(arg lr.gw)" lladdr "$(arg lr.gwmac)" dev tcp0 nud permanent
	ip neigh replace fe80::f lladdr "$(arg lr.gwmac)" dev tcp0 nud permanent
	# By number: /etc/protocols is not here. The agent's connections keep mgmt0.
	ip rule add ipproto 6 lookup 100
	ip rule add to 10.0.2.0/24 lookup main
	ip -6 rule add ipproto 6 lookup 100
	ip route add default via "$(arg lr.gw)" dev tcp0 onlink src "${addr%/*}" table 100
	ip -6 route add default via fe80::f dev tcp0 src "${addr6%/*}" table 100
fi
wan=$(nic_by_tail 03)
if [ -n "$wan" ]; then
	ip link set "$wan" name wan0
	ip addr add "$(arg lr.wan)" dev wan0
	ip link set wan0 up
fi
ip addr add 10.0.2.15/24 dev mgmt0
ip link set mgmt0 up
echo "init: lan0 mtu $(cat /sys/class/net/lan0/mtu)"
rdma link add rxe0 type rxe netdev lan0 || echo "init: no rxe"
ulimit -l unlimited
echo "init: ready"
exec /sbin/agent 7000
