#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Changes of an edge's interfaces: deleted and created again, carriers, MTUs, offloads, addresses. Each time state and --check
# must report it within 2 s, and traffic must be back within 3 s of the repair, by lab_free_ms. What a running link survives must not keep
# it from starting again.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

edge_says() { # edge state reason
	[ "$(lab_status "$1" '.links[0].state')" = "$2" ] && [[ "$(lab_status "$1" '.links[0].error')" == *"$3"* ]]
}

# State, --check, log and metric, all with the reason.
told() { # edge reason
	lab_within 2 edge_says "$1" port "$2" || why "edge $1 is $(lab_status "$1" '.links[0] | .state + ": " + .error')" || return
	! lab_client "$1" status --check >"$LAB_DIR/check.out" 2>&1 || why "--check is content" || return
	grep -qF "$2" "$LAB_DIR/check.out" || why "--check says: $(cat "$LAB_DIR/check.out")" || return
	grep -qF "$2" "$LAB_DIR/$1/log" || why "the log does not say: $2" || return
	NOTE=$(lab_status "$1" '.links[0].error')
}

is_up() { # edge
	[ "$(lab_status "$1" '.links[0].state')" = up ] && lab_client "$1" status --check
}

# Runs a fresh test each time until one passes; each has twice the time of the one before.
traffic_passes() {
	LAB_PATIENCE=$TRY_S lab_rcperf --size 4096 --iters 20 && return
	TRY_S=$((2 * TRY_S))
	return 1
}
TRY_S=2

# Since $REPAIRED (lab_free_ms).
back_within_3_s() { # edge
	local ms
	lab_wait 3 is_up "$1" || why "edge $1 stays $(lab_status "$1" '.links[0] | .state + ": " + .error')" || return
	lab_wait 3 traffic_passes || why "no traffic" || return
	ms=$(($(lab_free_ms) - REPAIRED))
	NOTE="$NOTE; traffic $ms ms after the repair"
	[ $ms -lt 3000 ] || why "$NOTE"
}

repaired() {
	REPAIRED=$(lab_free_ms)
	TRY_S=2
}

restart_server() {
	lab_servers_stop
	lab_server $B_HOST
}

rebinds() { # edge
	lab_status "$1" '.links[0].counters.lan_port_rebinds'
}

deleted_and_made_again() { # a|b site
	local flows pid before
	pid=$(lab_edge_child "$1")
	before=$(rebinds "$1")
	flows=$(lab_status "$1" '.links[0].peer.sessions')
	lab_ip "e$1" link del lan0
	told "$1" "LAN port lan0: gone" || return
	sleep 0.5
	lab_plug_in "$1"
	[ "$1" = a ] || restart_server
	repaired
	back_within_3_s "$1" || return
	[ "$(lab_edge_child "$1")" = "$pid" ] || why "another process" || return
	[ "$(lab_status "$1" '.links[0].peer.sessions')" = "$flows" ] || why "another session" || return
	[ $(($(rebinds "$1") - before)) = 1 ] || why "rebinds: $before, then $(rebinds "$1")" || return
	# the rules went with the interface
	lab_in "e$1" nft list table netdev longreach_link | grep -q 'device "\?lan0' || why "no rule at lan0" || return
	lab_in "e$1" ethtool -k lan0 | grep -q '^generic-receive-offload: off' || why "GRO is on"
}

index_of() { # namespace
	lab_ip "$1" -o link show lan0 | cut -d: -f1
}

# As a container's runtime does that lends a container an interface: it comes back with the index that it had.
moved_away_and_back() {
	local index before
	index=$(index_of ea)
	before=$(rebinds a)
	lab_add_ns away
	LAB_MORE_NS="$LAB_MORE_NS away"
	lab_ip ea link set lan0 netns "$LAB_ID-away"
	told a "LAN port lan0: gone" || return
	lab_ip away link set lan0 netns "$LAB_ID-ea"
	[ "$(index_of ea)" = "$index" ] || why "its index is $(index_of ea), was $index" || return
	lab_ip ea addr add 10.101.1.1/24 dev lan0
	lab_ip ea -6 addr add fd00:101:1::1/64 dev lan0 nodad
	lab_ip ea link set lan0 up
	lab_host_up ha 1
	repaired
	back_within_3_s a || return
	[ $(($(rebinds a) - before)) = 1 ] || why "rebinds: $before, then $(rebinds a)" || return
	lab_in ea nft list table netdev longreach_link | grep -q 'device "\?lan0' || why "no rule at lan0"
}

# The same with a port that did not exist at the start.
absent_at_the_start() {
	lab_edge_stop a
	lab_ip ea link del lan0
	lab_edge_start a
	lab_wait 3 edge_says a failed "LAN port lan0" || why "$(lab_status a '.links[0] | .state + ": " + .error')" || return
	sleep 0.5
	lab_plug_in a
	repaired
	NOTE=$(lab_status a '.links[0].error')
	back_within_3_s a
}

# Of two ports one is missing at the start: the link carries what comes by the other.
one_of_two_absent_at_the_start() {
	local LAB_EXTRA_A=Link.LanPort=lan1
	lab_edge_stop a KILL
	lab_edge_start a
	lab_wait 3 edge_says a port "LAN port lan1: gone" || why "$(lab_status a '.links[0] | .state + ": " + .error')" || return
	NOTE=$(lab_status a '.links[0].error')
	lab_wait 3 traffic_passes || why "no traffic by the port that is there" || return
	lab_add_ns hc
	LAB_MORE_NS="$LAB_MORE_NS hc"
	lab_veth hc rdma0 ea lan1
	lab_ip hc link set rdma0 up
	lab_ip ea link set lan1 up
	repaired
	back_within_3_s a || return
	lab_in ea nft list table netdev longreach_link | grep -q 'device "\?lan1' || why "no rule at lan1" || return
	LAB_EXTRA_A=
	lab_edge_stop a
	lab_ip ea link del lan1
	lab_edge_start a
	repaired
	NOTE=
	back_within_3_s a
}

# The host's end goes down: the edge's end loses its carrier.
carrier() {
	lab_ip ha link set rdma0 down
	told a "LAN port lan0: no carrier" || return
	lab_ip ha link set rdma0 up
	lab_ip ha route replace default via 10.101.1.1
	repaired
	back_within_3_s a
}

switched_off() {
	lab_ip ea link set lan0 down
	told a "LAN port lan0: is down" || return
	lab_ip ea link set lan0 up
	repaired
	back_within_3_s a
}

smaller_mtu() {
	lab_ip ea link set lan0 mtu 1500
	told a "LAN port lan0: MTU 1500" || return
	lab_ip ea link set lan0 mtu 9000
	repaired
	back_within_3_s a || return
	lab_ip ea link set wan0 mtu 1400
	told a "has MTU 1400" || return
	NOTE="$NOTE; $(lab_status a '.links[0].error')"
	lab_ip ea link set wan0 mtu 9000
	lab_ip ea -6 addr replace 2001:db8::1/64 dev wan0 nodad
	repaired
	back_within_3_s a
}

gro_is() { # on|off
	lab_in ea ethtool -k lan0 | grep -q "^generic-receive-offload: $1"
}

offload_on_again() {
	gro_is off || why "GRO was on before" || return
	lab_in ea ethtool -K lan0 gro on >/dev/null 2>&1
	lab_wait 2 gro_is off || why "GRO stays on" || return
	grep -q 'LAN port lan0: rx-gro was switched on' "$LAB_DIR/a/log" || why "the log says nothing"
}

wan_address() {
	lab_ip ea addr del 192.0.2.1/24 dev wan0
	told a "LocalAddress=192.0.2.1" || return
	sleep 1
	lab_ip ea addr add 192.0.2.1/24 dev wan0
	lab_ip ea route replace 10.101.2.0/24 via 192.0.2.2
	repaired
	back_within_3_s a
}

starts_again() {
	lab_edge_stop a KILL
	lab_edge_start a
	repaired
	back_within_3_s a
}

# From B's machine, and so over the line: a router's message that a datagram of A was too long for the MTU behind it.
send_frag_needed() { # mtu
	lab_in eb perl -MSocket -e '
		my ($a, $b) = map { inet_aton($_) } "192.0.2.1", "192.0.2.2";
		my $too_long = pack("CCnnnCCna4a4 nnnn", 0x45, 0, 8956, 1, 0x4000, 64, 17, 0, $a, $b, 4790, 50000, 8936, 0);
		my $m = pack("CCnnn", 3, 4, 0, 0, $ARGV[0]) . $too_long;
		my $sum = 0;
		$sum += $_ for unpack("n*", $m);
		$sum = ($sum & 0xffff) + ($sum >> 16) for 1 .. 2;
		substr($m, 2, 2) = pack("n", ~$sum & 0xffff);
		socket(my $s, AF_INET, SOCK_RAW, 1) or die;
		send($s, $m, 0, sockaddr_in(0, $a)) or die' "$1"
}

route_has_mtu() {
	lab_ip ea route get 192.0.2.2 | grep -q "mtu $1"
}

# The kernel remembers such a message for ten minutes, and anybody may forge one.
start_after_frag_needed() {
	NOTE=
	send_frag_needed 1400
	lab_wait 2 route_has_mtu 1400 || why "the kernel does not take the ICMP message" || return
	starts_again
	lab_ip ea route flush cache
}

# The main table's route to the other edge leads out of an interface with a smaller MTU; a rule gives the WAN address its
# own table.
start_with_a_rule() {
	NOTE=
	lab_veth ea mgmt line mgmt
	lab_ip line link set mgmt up
	lab_ip ea link set mgmt mtu 1500 up
	lab_ip ea addr add 198.51.100.1/24 dev mgmt
	lab_ip ea route add default via 198.51.100.2
	lab_ip ea route add 192.0.2.0/24 dev wan0 src 192.0.2.1 table 7
	lab_ip ea rule add from 192.0.2.1 table 7
	lab_ip ea route del 192.0.2.0/24 dev wan0
	starts_again
	lab_ip ea route add 192.0.2.0/24 dev wan0 src 192.0.2.1
	lab_ip ea rule del from 192.0.2.1 table 7
	lab_ip ea link del mgmt
}

# The interface itself is too narrow: the link carries what fits, and its state says so.
start_on_a_narrow_interface() {
	lab_ip ea link set wan0 mtu 1400
	lab_edge_stop a KILL
	lab_edge_start a
	lab_wait 3 edge_says a port "has MTU 1400" || why "$(lab_status a '.links[0] | .state + ": " + .error')" || return
	NOTE=$(lab_status a '.links[0].error')
	lab_wait 3 traffic_passes || why "no traffic" || return
	lab_ip ea link set wan0 mtu 9000
	lab_ip ea -6 addr replace 2001:db8::1/64 dev wan0 nodad
	repaired
	back_within_3_s a
}

# The edge that listens.
wan_address_of_the_listener() {
	lab_ip eb addr del 192.0.2.2/24 dev wan0
	told b "LocalAddress=192.0.2.2" || return
	sleep 4 # the control connection breaks
	lab_ip eb addr add 192.0.2.2/24 dev wan0
	lab_ip eb route replace 10.101.1.0/24 via 192.0.2.1
	repaired
	lab_wait 3 is_up b || why "edge b stays $(lab_status b '.links[0] | .state + ": " + .error')" || return
	back_within_3_s a
}

neighbour_lost() {
	lab_ip ea neigh flush dev lan0
	repaired
	NOTE=
	back_within_3_s a
}

permanent_neighbour() {
	local mac
	traffic_passes || why "no traffic" || return
	mac=$(lab_ip eb -j neigh show $B_HOST dev lan0 | jq -r '.[0].lladdr')
	lab_ip eb neigh replace $B_HOST lladdr "$mac" dev lan0 nud permanent || why "no entry" || return
	traffic_passes || why "no traffic to it" || return
	sleep 3 # longreachd asks for what it knows every second
	traffic_passes || why "no traffic to it any more" || return
	NOTE=$(lab_ip eb neigh show $B_HOST dev lan0)
	[[ $NOTE == *PERMANENT* ]] || why "$NOTE"
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 30
lab_server $B_HOST
lab_edges
check "the link comes up" lab_link_up
check "lan0 of edge A is deleted and made again" deleted_and_made_again a 1
check "and once more" deleted_and_made_again a 1
check "lan0 of edge B is deleted and made again" deleted_and_made_again b 2
check "lan0 of edge A is moved to another namespace and back" moved_away_and_back
check "a link that is started without its port starts as the port comes" absent_at_the_start
check "a link with two ports starts while one is missing" one_of_two_absent_at_the_start
check "the carrier is lost and comes back" carrier
check "the port is switched off and on" switched_off
check "the MTU becomes smaller and is put right" smaller_mtu
check "offloads that somebody switches on are switched off" offload_on_again
check "the WAN address goes and comes back" wan_address
check "and that of the edge that listens" wan_address_of_the_listener
check "a start while the kernel believes in a narrower route" start_after_frag_needed
check "a start with a rule for the WAN address" start_with_a_rule
check "a start on an interface whose MTU is too small" start_on_a_narrow_interface
check "a lost neighbour is asked for" neighbour_lost
check "a permanent neighbour stays one" permanent_neighbour
check_end
