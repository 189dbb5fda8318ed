#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# IP that the link carries for the barrier obeys the edges' own nft rules: it passes the FORWARD chain at both edges like any
# routed packet, with conntrack, TTL and ICMP errors, and none of it crosses the line unsealed.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

A_OTHER=10.101.1.3
PORT=5301       # port that policies accept
OTHER_PORT=5302 # port that policies do not accept

# A FORWARD chain that drops all but what the rules accept, until no_policy.
policy() { # edge rules...
	local edge=$1
	shift
	lab_in "e$edge" nft -f - <<-END
		table inet site {
			chain forward {
				type filter hook forward priority filter; policy drop;
				$(printf '%s\n' "$@")
			}
		}
	END
}

no_policy() {
	lab_in ea nft delete table inet site 2>/dev/null
	lab_in eb nft delete table inet site 2>/dev/null
}

pings() { # host ping-arguments...
	lab_in "$1" busybox ping -q -c 1 -W 1 "${@:2}" >"$LAB_DIR/ping" 2>&1
}

# A TCP connection with an answer.
says() { # from-host to-host port to from
	local word pid
	lab_in "$2" timeout 5 socat "TCP-LISTEN:$3,reuseaddr" EXEC:cat 2>/dev/null &
	pid=$!
	lab_wait 3 lab_listens "$2" "$3" || why "socat does not listen at port $3" || return
	word=$(echo word | lab_in "$1" timeout 5 socat -t 2 - "TCP:$4:$3,bind=$5,connect-timeout=1" 2>/dev/null)
	kill $pid 2>/dev/null
	wait $pid 2>/dev/null
	[ "$word" = word ]
}

a_says() { says ha hb "$1" "${3:-$B_HOST}" "${2:-$A_HOST}"; } # port [from [to]]
b_says() { says hb ha "$1" $A_HOST $B_HOST; }

all_passes() {
	lab_wait 3 pings ha $B_HOST || why "no ping" || return
	lab_wait 3 pings ha $B_HOST6 || why "no ping by IPv6" || return
	lab_wait 3 a_says $PORT || why "no TCP to port $PORT" || return
	lab_wait 3 a_says $OTHER_PORT || why "no TCP to port $OTHER_PORT" || return
	lab_wait 3 b_says $PORT || why "no TCP from B"
}

# Port X of host A alone: by addresses and ports, both ways.
only_what_is_accepted() { # edge
	policy "$1" "ip saddr $A_HOST ip daddr $B_HOST tcp dport $PORT accept" \
		"ip saddr $B_HOST ip daddr $A_HOST tcp sport $PORT accept"
	judge_policy
	no_policy
	[ -z "$WHY" ]
}

judge_policy() {
	lab_wait 3 a_says $PORT || why "what is accepted does not pass" || return
	! pings ha $B_HOST || why "ping passes" || return
	! pings ha $B_HOST6 || why "ping by IPv6 passes" || return
	! pings hb $A_HOST || why "ping from B passes" || return
	! a_says $OTHER_PORT || why "another port passes" || return
	! a_says $PORT $A_OTHER || why "another host passes" || return
	! b_says $PORT || why "what B begins passes"
}

# Only connections that A begins, and their answers: conntrack works at one edge and at both.
established() { # edges
	local e
	for e in $1; do
		policy "$e" "ct state established,related accept" "ct state invalid drop" \
			"ip saddr 10.101.1.0/24 ct state new accept"
	done
	lab_wait 3 a_says $PORT || why "TCP from A does not pass" || no_policy || return
	lab_wait 3 pings ha $B_HOST || why "ping from A does not pass"
	lab_wait 3 pings ha -s 20000 $B_HOST || why "fragments from A do not pass"
	! pings hb $A_HOST || why "ping from B passes"
	! b_says $PORT || why "TCP from B passes"
	no_policy
	[ -z "$WHY" ]
}

# An answer at once, not a timeout: the far edge's refusal reaches the sender.
rejected() {
	local start ms
	policy b "tcp dport $OTHER_PORT reject with tcp reset" accept
	lab_in hb timeout 50 socat "TCP-LISTEN:$OTHER_PORT,reuseaddr" EXEC:cat 2>/dev/null &
	lab_wait 3 lab_listens hb $OTHER_PORT || why "socat does not listen"
	start=$(date +%s%3N)
	lab_in ha timeout 50 socat - "TCP:$B_HOST:$OTHER_PORT" </dev/null 2>"$LAB_DIR/socat.err"
	ms=$(($(date +%s%3N) - start))
	no_policy
	kill $! 2>/dev/null
	NOTE="after $ms ms: $(sed 's/.*: //' "$LAB_DIR/socat.err" | tail -1)"
	grep -q refused "$LAB_DIR/socat.err" || why "$NOTE"
}

rc_flows() {
	policy a "ct state established,related accept" "tcp dport 18515 accept"
	policy b "ct state established,related accept" "tcp dport 18515 accept"
	lab_rcperf --iters 64 --depth 64 || why "contents, order or count are wrong"
	no_policy
	NOTE="missing when the word was heard: $(lab_result .there.missing_at_done)"
	[ -z "$WHY" ] && [ "$(lab_result .there.missing_at_done)" = 0 ] || why "$NOTE"
}

hop() { # host ttl address
	lab_in "$1" busybox traceroute -n -f "$2" -m "$2" -q 1 -w 10 "$3" 2>/dev/null | awk 'NR > 1 { print $2 }'
}

two_hops() {
	NOTE="$(hop ha 1 $B_HOST), $(hop ha 2 $B_HOST), $(hop ha 3 $B_HOST)"
	[ "$NOTE" = "10.101.1.1, 10.101.2.1, $B_HOST" ] || why "the way to B is: $NOTE"
}

# The MTU behind the far edge is smaller than the hosts' packets: the edge sends ICMP, and the hosts get it.
too_large() {
	lab_ip eb route add $B_HOST/32 dev lan0 mtu lock 1400
	lab_ip eb -6 route add $B_HOST6/128 dev lan0 mtu lock 1400
	lab_ip ha route flush cache 2>/dev/null
	a_says $PORT
	head -c 2M /dev/urandom >"$LAB_DIR/sent"
	lab_in hb timeout 100 socat -u "TCP-LISTEN:$PORT,reuseaddr" "CREATE:$LAB_DIR/got" 2>/dev/null &
	lab_wait 3 lab_listens hb $PORT || why "socat does not listen"
	lab_in ha timeout 100 socat -u "OPEN:$LAB_DIR/sent" "TCP:$B_HOST:$PORT" 2>/dev/null || why "TCP does not pass"
	wait $!
	[ -n "$WHY" ] || cmp -s "$LAB_DIR/sent" "$LAB_DIR/got" || why "not the bytes that were sent"
	NOTE="$(lab_ip ha route get $B_HOST | grep -o 'mtu [0-9]*')"
	lab_ip eb route del $B_HOST/32 dev lan0
	lab_ip eb -6 route del $B_HOST6/128 dev lan0
	lab_ip ha route flush cache 2>/dev/null
	[ -z "$WHY" ] && [ "$NOTE" = "mtu 1400" ] || why "${WHY:-$NOTE}"
}

# The edges' own addresses inside the prefixes, from the other site and to it.
edges_themselves() {
	lab_wait 3 pings ha 10.101.2.1 || why "A does not reach edge B" || return
	lab_wait 3 pings ea -I 10.101.1.1 $B_HOST || why "edge A does not reach B" || return
	lab_wait 3 pings eb $A_HOST || why "edge B does not reach A"
}

nothing_unsealed() {
	NOTE="$(lab_unsealed) packets from hosts, to hosts or about them"
	[ "$(lab_unsealed)" = 0 ] || why "$NOTE"
}

# An operator loads another rule set while the hosts go on.
ruleset_flushed() {
	local i pid before
	before=$(lab_unsealed)
	lab_in ha busybox ping -q -i 0.002 -w 4 $B_HOST >"$LAB_DIR/ping" 2>&1 &
	pid=$!
	for i in 1 2 3 4 5; do
		sleep 0.3
		lab_in ea nft flush ruleset
		lab_in eb nft flush ruleset
	done
	wait $pid
	NOTE="$(grep -o '[0-9]* packets received' "$LAB_DIR/ping"), $(($(lab_unsealed) - before)) unsealed"
	[ "$(lab_unsealed)" = "$before" ] || why "$NOTE"
}

rules_are_back() {
	lab_ip ea rule show | grep -q 'proto 191' && pings ha $B_HOST
}

# A flush of the rules in front of the routing tables opens nothing, and the daemon restores them.
rules_flushed() {
	local start
	lab_in ea bash -c "for i in 1 2 3; do ip rule flush; ip rule add pref 32766 table main; sleep 0.1; done" 2>/dev/null
	start=$(date +%s%3N)
	lab_wait 3 rules_are_back || why "no ping any more: $(lab_ip ea rule show)" || return
	NOTE="back after $(($(date +%s%3N) - start)) ms"
}

deleted() {
	local start
	lab_ip ea link del lr-link || why "there is none" || return
	start=$(date +%s%3N)
	lab_wait 3 pings ha $B_HOST || why "no ping any more" || return
	NOTE="back after $(($(date +%s%3N) - start)) ms"
	lab_wait 2 lab_link_is_up || why "state $(lab_status a '.links[0] | .state + ": " + .error')"
}

switched_off() {
	lab_ip ea link set lr-link down
	lab_wait 3 pings ha $B_HOST || why "no ping any more"
}

lan_port_gone() {
	lab_unplug b
	sleep 0.2
	lab_ip eb route add default via 192.0.2.1 # a route that leads out of no LAN port
	pings ha $B_HOST
	lab_ip eb route del default
	lab_plug_in b
	lab_wait 5 lab_link_is_up || why "state $(lab_status b '.links[0] | .state + ": " + .error')" || return
	lab_wait 3 pings ha $B_HOST || why "no ping any more"
}

# An operator's rule leads packets of the other site's hosts to a VLAN of the WAN.
vlan_of_the_wan() {
	local n
	[ -n "$LAB_HAS_VLAN" ] || { NOTE="no VLAN devices in this kernel"; return 77; }
	lab_ip ea link add wan0.100 link wan0 type vlan id 100
	lab_sysctl ea net.ipv6.conf.wan0/100.disable_ipv6=1
	lab_ip ea addr add 198.51.100.1/24 dev wan0.100
	lab_ip ea link set wan0.100 up
	lab_ip ea neigh add 198.51.100.2 lladdr 02:00:00:00:00:02 dev wan0.100
	lab_ip ea route add default via 198.51.100.2 table 777
	lab_ip ea rule add pref 200 from 10.101.2.0/24 lookup 777
	sleep 0.3
	pings hb $A_HOST
	n=$(lab_in ea cat /sys/class/net/wan0.100/statistics/tx_packets)
	lab_ip ea rule del pref 200
	lab_ip ea link del wan0.100
	NOTE="$n packets left by it"
	[ "$n" = 0 ] || why "$NOTE" || return
	lab_wait 3 pings hb $A_HOST || why "no ping any more"
}

# One that is made while the link runs: hosts are behind it.
vlan_of_the_lan() {
	[ -n "$LAB_HAS_VLAN" ] || { NOTE="no VLAN devices in this kernel"; return 77; }
	lab_wait 3 pings hb $A_VLAN_HOST || why "no ping to a host behind lan0.100" || return
	lab_ip ha link add rdma0.200 link rdma0 type vlan id 200
	lab_ip ha addr add 10.101.1.66/26 dev rdma0.200
	lab_ip ha link set rdma0.200 up
	lab_ip ea link add lan0.200 link lan0 type vlan id 200
	lab_ip ea addr add 10.101.1.65/26 dev lan0.200
	lab_ip ea link set lan0.200 up
	lab_wait 3 pings hb 10.101.1.66 || why "no ping to a host behind lan0.200"
	lab_ip ea link del lan0.200
	lab_ip ha link del rdma0.200
	[ -n "$WHY" ] || lab_wait 3 pings hb $A_HOST || why "no ping any more"
}

killed() {
	lab_edge_stop a KILL
	! pings ha $B_HOST || why "IP passes beside the daemon" || return
	lab_edge_start a
	lab_wait 10 lab_link_is_up || why "the link does not come up" || return
	lab_wait 3 pings ha $B_HOST || why "no ping any more"
}

# IP of the other edge's barrier obeys the rules of an edge without a barrier.
one_edge_only() {
	local ns
	lab_edges_stop
	for ns in ea eb; do # the routes there and back differ
		lab_sysctl $ns net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
	done
	LAB_WAN_A= LAB_WAN_B=
	LAB_EXTRA= LAB_EXTRA_A=Link.Barrier=pair LAB_EXTRA_B=Link.Barrier=off
	lab_edges
	lab_wait 10 disagree || why "state $(lab_status a '.links[0].state')" || return
	lab_wait 3 pings ha $B_HOST || why "no ping" || return
	only_what_is_accepted b
}

disagree() {
	[ "$(lab_status a '.links[0].state')" = mismatch ] && [ "$(lab_status b '.links[0].state')" = mismatch ]
}

# When the link is stopped the kernel forwards again, past the link; and the counter on the line counts these packets.
nothing_is_left() {
	local before
	lab_edges_stop
	before=$(lab_unsealed)
	! lab_ip ea link show lr-link >/dev/null 2>&1 || why "lr-link is left" || return
	! lab_ip ea rule show | grep 191 || why "rules are left" || return
	! lab_ip ea route show table all | grep 'proto 191' || why "routes are left" || return
	lab_wait 3 pings ha $B_HOST || why "the kernel does not forward" || return
	[ "$(lab_unsealed)" -gt "$before" ] || why "the test would not notice what is unsealed"
}

wan_inside() {
	lab_edges_stop
	lab_ip ea addr add 10.101.11.77/32 dev wan0
	lab_ip eb addr add 10.101.12.77/32 dev wan0
	lab_ip ea route add 10.101.12.77/32 via 192.0.2.2 src 10.101.11.77
	lab_ip eb route add 10.101.11.77/32 via 192.0.2.1 src 10.101.12.77
	LAB_EXTRA="Link.Barrier=pair"
	LAB_WAN_A=10.101.11.77 LAB_WAN_B=10.101.12.77
	lab_edges
	lab_link_up || return
	all_passes || return
	lab_rcperf --iters 64 --depth 64 || why "contents, order or count are wrong"
}

lab_up
for ns in ea eb; do
	lab_sysctl $ns net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.default.rp_filter=1
done
lab_line --rate $LAB_LINE_RATE --km 30
lab_server $B_HOST
LAB_EXTRA=Link.Barrier=pair
lab_edges
check "the link comes up" lab_link_up
lab_watch_line
check "no rules: all passes" all_passes
check "near edge: port $PORT of host A alone" only_what_is_accepted a
check "far edge: the same" only_what_is_accepted b
check "near edge: answers to what A begins" established a
check "far edge: answers to what A begins" established b
check "both edges" established "a b"
check "a refusal of the far edge comes back" rejected
check "RC passes, and the word behind it, where the policy lets TCP through" rc_flows
check "an edge is a hop" two_hops
check "packet too big, says the far edge" too_large
check "edges' own addresses" edges_themselves
check "rules in front of the routing tables are flushed" rules_flushed
check "the interface is deleted" deleted
check "the interface is switched off" switched_off
check "the LAN port of the far edge goes away" lan_port_gone
check "a VLAN of the WAN takes nothing that the link carried" vlan_of_the_wan
check "a VLAN of the LAN port takes it, as soon as there is one" vlan_of_the_lan
check "the daemon is killed" killed
check "all nft rules are flushed" ruleset_flushed
check "nothing crossed the line unsealed" nothing_unsealed
check "WAN addresses inside the prefixes" wan_inside
check "a barrier at one edge only: the policy of the other" one_edge_only
check "nothing is left behind" nothing_is_left
check_end
