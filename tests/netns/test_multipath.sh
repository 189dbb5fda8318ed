#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two paths between the edges, each a line of its own:
#
#     edgeA wan0 --- wa line wb --- wan0 edgeB     192.0.2.0/24, [Path one]
#     edgeA wan1 --- wc line wd --- wan1 edgeB     192.0.3.0/24, [Path two]
#
# Traffic of one path beside the other, a path that dies under load and comes back, a path that is missing at a start, and
# edges that disagree about paths.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

PATH_RATE=${PATH_RATE:-30M}
SECOND_PID=
TWO_AT_B=two

eval "$(declare -f lab_conf | sed '1s/lab_conf/one_path_conf/')"
lab_conf() { # a|b
	local here=1 there=2 name=two
	if [ "$1" = b ]; then
		here=2 there=1 name=$TWO_AT_B
	fi
	one_path_conf "$1" | sed 's/^\[Path\]/[Path one]/'
	cat <<-END
		[Path $name]
		LocalAddress=192.0.3.$here
		RemoteAddress=192.0.3.$there
		Rate=$PATH_RATE
		MTU=$LAB_WAN_MTU
	END
}

second_line() {
	local i
	lab_veth ea wan1 line wc
	lab_veth eb wan1 line wd
	for i in wc wd; do
		lab_sysctl line "net.ipv6.conf.$i.disable_ipv6=1"
		lab_ip line link set "$i" up
	done
	for i in 1 2; do
		local ns
		ns=e$([ $i = 1 ] && echo a || echo b)
		lab_ip $ns addr add "192.0.3.$i/24" dev wan1
		lab_ip $ns link set wan1 up
		lab_offload $ns wan1 tso off gso off tx-udp-segmentation off tx off gro on
	done
	ip netns exec "$LAB_ID-line" "$LAB_TOOLS/wanline" --ctl "$LAB_DIR/line2.sock" --rate "$PATH_RATE" wc wd \
		2>>"$LAB_DIR/line2.log" &
	SECOND_PID=$!
	lab_wait 3 second show || lab_die "the second line does not start: $(tail -1 "$LAB_DIR/line2.log")"
}

second() { # lab_line_ctl of the second line
	LAB_LINE_CTL=$LAB_DIR/line2.sock lab_line_ctl "$@"
}

states() { # a|b: "one two"
	lab_status "$1" '[.links[0].paths[] | .state] | join(" ")'
}

states_are() { # a|b states
	[ "$(states "$1")" = "$2" ]
}

both_states_are() {
	states_are a "$1" && states_are b "$1"
}

of_path() { # a|b index field
	lab_status "$1" ".links[0].paths[$2].$3"
}

# A path is dead for as long as its keys last: 1,600 probes, 20 of them a second, for each lane.
keys_used_up() {
	local i
	LAB_EXTRA=Tuning.RekeyAfter=100
	lab_edges_stop
	comes_up || return
	lab_wait 5 both_states_are "up up" || why "states: $(states a), $(states b)" || return
	second cut
	for i in $(seq 150); do
		sleep 1
		! grep -q '\[keys_used_up\]' "$LAB_DIR"/[ab]/log || break
	done
	second uncut
	LAB_EXTRA=
	[ "$i" != 150 ] || why "no key was used up" || return
	lab_wait 5 both_states_are "up up" || why "states: $(states a), $(states b)" || return
	NOTE="after $i s"
}

comes_up() {
	lab_edges
	lab_link_up || return
	lab_wait 5 both_states_are "up up" || why "paths are $(states a) at A, $(states b) at B" || return
	NOTE="rtt $(of_path a 0 rtt_min_ns) and $(of_path a 1 rtt_min_ns) ns, MTU $(of_path a 0 mtu)"
}

# The simulator measures how much more two paths carry (lrsim --full 2x200g...): here the processors are shared.
use_both() {
	local sent0 sent1 gbps
	lab_rcperf --op write --qps 4 --size 65536 --secs 3 || why "contents, order or count are wrong" || return
	gbps=$(lab_result .goodput_gbps)
	sent0=$(of_path a 0 tx_bytes) sent1=$(of_path a 1 tx_bytes)
	NOTE="$gbps Gbit/s, bytes by the two $sent0 and $sent1"
	holds "$sent1 > $sent0 / 3 && $sent0 > $sent1 / 3" || why "badly spread: $NOTE"
}

dies_under_load() { # cut command, restore command, index
	local status moved
	lab_load --op write --qps 4 --size 65536 && lab_wait 5 both_carry || why "no traffic by both paths" || return
	"${@:2:1}" cut
	lab_wait 3 states_are a "$3" || why "path is not found dead: $(states a)" || return
	lab_load_moves || why "no traffic by the other path" || return
	"${@:2:1}" uncut
	lab_wait 3 both_states_are "up up" || why "the path does not come back: $(states a), $(states b)" || return
	lab_load_end
	status=$?
	[ $status = 0 ] || why "the hosts did not come through (rcperf status $status)" || return
	moved=$(of_path a "$1" moved)
	NOTE="$(lab_result '"\(.messages) messages verified, host retries \(.here.retries)"'), $moved datagrams moved"
	[ "$moved" -gt 0 ] || why "nothing went again elsewhere" || return
	grep -q path_dead "$LAB_DIR/a/log" || why "the log does not speak of it"
}

# Each path has more than a megabyte under way or behind it since the last call.
both_carry() {
	local now
	now="$(of_path a 0 tx_bytes) $(of_path a 1 tx_bytes)"
	: "${CARRIED:=$now}"
	[ "${now% *}" -gt $((${CARRIED% *} + 1000000)) ] && [ "${now#* }" -gt $((${CARRIED#* } + 1000000)) ] && CARRIED=
}

both_die() {
	local status
	lab_load --op write --qps 4 --size 65536 || why "no traffic" || return
	lab_line_ctl cut
	second cut
	lab_wait 3 states_are a "dead dead" || why "paths are $(states a)" || return
	second uncut
	lab_load_moves || why "no traffic by the second path"
	lab_load_end
	status=$?
	lab_line_ctl uncut
	[ $status = 0 ] || why "the hosts did not come through (rcperf status $status)" || return
	NOTE="$(lab_result '"\(.messages) messages verified, host retries \(.here.retries)"')"
}

# The control channel uses the first path and moves to the second.
control_goes_around() {
	lab_edges_stop
	lab_line_ctl cut
	lab_edges
	lab_wait 20 lab_link_is_up || why "no session while the first path is cut" || return
	lab_rcperf --op write --qps 1 --size 65536 --secs 1 || why "contents, order or count are wrong" || return
	lab_line_ctl uncut
	lab_wait 5 both_states_are "up up" || why "paths are $(states a) at A, $(states b) at B"
}

link_state() { # a|b
	lab_status "$1" '.links[0] | .state + ": " + .error'
}

# A daemon that dies starts again while one of its two WAN addresses is gone.
starts_without() { # a|b wanN address states seconds
	local edge=$1
	lab_edge_stop "$edge" KILL
	lab_ip "e$edge" addr del "$3/24" dev "$2"
	lab_edge_start "$edge"
	lab_wait "$5" lab_link_is_up || why "the link is $(link_state a) at A, $(link_state b) at B" || return
	lab_wait 3 states_are "$edge" "$4" || why "paths are $(states "$edge")" || return
	lab_rcperf --op write --qps 1 --size 65536 --secs 1 || why "contents, order or count are wrong" || return
	NOTE="up with paths $4"
	lab_ip "e$edge" addr add "$3/24" dev "$2"
	lab_wait 3 both_states_are "up up" || why "the path does not come: $(states a) at A, $(states b) at B"
}

# The second line now drops packets larger than 4000 bytes, without an ICMP message.
narrow() {
	local mtu
	lab_ip line link set wc mtu 4000
	lab_ip line link set wd mtu 4000
	lab_rcperf --op write --qps 4 --size 65536 --secs 3 || why "contents, order or count are wrong" || return
	lab_wait 10 path_mtu_below 1 4001 || why "MTU $(of_path a 1 mtu) is believed" || return
	mtu=$(of_path a 1 mtu)
	NOTE="MTU $mtu found, $(of_path a 0 mtu) on the other"
	lab_ip line link set wc mtu 9000
	lab_ip line link set wd mtu 9000
	[ "$mtu" -gt 3900 ] && [ "$(of_path a 0 mtu)" = 9000 ] || why "$NOTE"
}

path_mtu_below() { # index bound
	[ "$(of_path a "$1" mtu)" -lt "$2" ] && [ "$(of_path a "$1" mtu_search)" = false ]
}

disagree() {
	lab_edges_stop
	TWO_AT_B=three
	lab_edges
	lab_wait 10 grep -q 'no packet can be carried: .*\[Path two\] here is not there' "$LAB_DIR/a/log" ||
		why "edge A does not say what differs"
}

lab_up
lab_line --rate "$PATH_RATE"
second_line
LAB_RATE=$PATH_RATE
lab_line_set 100
second set km=300
lab_server $B_HOST
check "two paths come up" comes_up
check "two paths are both used" use_both
check "the second one cut under load and restored" dies_under_load 1 second "up dead"
[ -z "${FULL:-}" ] || check "the first one cut under load and restored" dies_under_load 0 lab_line_ctl "dead up"
check "both cut, the second comes back" both_die
[ -z "${FULL:-}" ] || check "a path that was dead longer than its keys last" keys_used_up
check "the second one becomes narrower" narrow
check "a session while the first path is cut" control_goes_around
check "edge A starts without the second WAN address" starts_without a wan1 192.0.3.1 "up dead" 3
check "edge B, which listens, starts without the first one" starts_without b wan0 192.0.2.2 "dead up" 20
check "edges with other paths refuse each other" disagree
kill $SECOND_PID
check_end
