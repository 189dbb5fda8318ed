# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# lab.sh - two sites and the long line between them, in network namespaces. To be sourced (bash, as root).
#
#                  site A                                              site B
#   +---------+         +---------------+   +---------------+   +---------------+         +---------+
#   |  hostA  |         |     edgeA     |   |     line      |   |     edgeB     |         |  hostB  |
#   |         |         |  longreachd   |   |    wanline    |   |  longreachd   |         |         |
#   |    rdma0+---------+lan0       wan0+---+wa           wb+---+wan0       lan0+---------+rdma0    |
#   +---------+         +---------------+   +---------------+   +---------------+         +---------+
#   10.101.1.2-9      .1   192.0.2.1                             192.0.2.2    .1      10.101.2.2-9
#   fd00:101:1::2     ::1  2001:db8::1                           2001:db8::2  ::1    fd00:101:2::2
#
# VLAN 100 between host and edge as well, where the kernel has VLAN devices ($LAB_HAS_VLAN): 10.101.11.2 - .1 at site A,
# 10.101.12.2 - .1 at site B. Both edges forward and have routes to each other's LAN, so that everything also works
# without a daemon ("direct"). MTU 9000 everywhere. Segmentation offload is off at the hosts and on the WAN side, and on the
# WAN side checksum offloads too: a veth would otherwise pass on TCP in packets of 64 KiB. Edges and line see packets of wire
# size.
#
# Call order: lab_up; lab_line [wanline options]; lab_edges; lab_link_up; ...; lab_edges_stop; lab_down (also by trap).
# Namespaces are named lr<pid>-..., files are in $LAB_DIR and $LAB_SHM; both are gone after lab_down().

LAB_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
LAB_BUILD=${O:-$LAB_ROOT/build/${CC:-gcc}}
case $LAB_BUILD in /*) ;; *) LAB_BUILD=$LAB_ROOT/$LAB_BUILD ;; esac
: "${LAB_BIN:=$LAB_BUILD}"         # longreachd, longreach: may be of another build than the tools (sanitizers)
: "${LAB_TOOLS:=$LAB_BUILD/tools}" # wanline, rcperf
LAB_ID=lr$$
LAB_DIR=
LAB_SHM=
LAB_LINE_PID=
LAB_MORE_NS= # created by a script, removed with the others
declare -A LAB_EDGE_PID=()
LAB_EDGE_BAD= # forbidden behaviour of an edge: for check.sh
LAB_CRASH_MEANT= # a test has killed the process that carries packets with a signal of a crash

# Settings that tests may change before lab_edges.
: "${LAB_MODE:=near}"     # AckMode
: "${LAB_RATE:=475M}"     # Rate= of the edges: a little below $LAB_LINE_RATE
: "${LAB_LINE_RATE:=500M}" # two busy processors carry this rate with room to spare
: "${LAB_WAN_MTU:=9000}"
: "${LAB_BUFFER:=64MiB}"
: "${LAB_FAMILY:=4}"      # addresses of the WAN path
: "${LAB_ENCRYPTION:=aes-256-gcm}" # or none; the keys are made by lab_up
: "${LAB_FEC:=off}"       # so that losses are repaired by repetition; extra lines with Link.FEC= come first

A_HOST=10.101.1.2
B_HOST=10.101.2.2
A_HOST6=fd00:101:1::2
B_HOST6=fd00:101:2::2
A_VLAN_HOST=10.101.11.2
B_VLAN_HOST=10.101.12.2

lab_die() {
	echo "lab: $*" >&2
	exit 1
}

# --- namespaces ---

lab_in() { # namespace command...
	local ns=$1
	shift
	ip netns exec "$LAB_ID-$ns" "$@"
}

lab_ip() { # namespace ip-arguments...
	local ns=$1
	shift
	ip -n "$LAB_ID-$ns" "$@"
}

lab_sysctl() { # namespace key=value...
	local ns=$1
	shift
	lab_in "$ns" sysctl -qw "$@"
}

# Removes leftovers of an earlier run that was killed: namespaces of dead processes without running programs.
lab_sweep() {
	local ns pid
	for ns in $(ip netns list | awk '/^lr[0-9]+-/ { print $1 }'); do
		pid=${ns%%-*}
		pid=${pid#lr}
		[ -d "/proc/$pid" ] && continue
		[ -n "$(ip netns pids "$ns" 2>/dev/null)" ] && continue
		ip netns del "$ns" 2>/dev/null
		rm -rf "/dev/shm/lr$pid"
	done
}

lab_add_ns() {
	ip netns add "$LAB_ID-$1" || lab_die "cannot make the namespace $LAB_ID-$1 (root?)"
	lab_sysctl "$1" net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 \
		net.ipv6.conf.default.accept_ra=0 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
		net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.default.send_redirects=0
	lab_ip "$1" link set lo up
}

lab_veth() { # nsX ifX nsY ifY
	ip -n "$LAB_ID-$1" link add "$2" mtu 9000 type veth peer name "$4" mtu 9000 netns "$LAB_ID-$3" ||
		lab_die "cannot make the cable $1/$2 - $3/$4"
}

lab_offload() { # namespace interface ethtool-features...
	lab_in "$1" ethtool -K "${@:2}" >/dev/null 2>&1 || lab_die "ethtool -K ${*:2} in $1 failed"
}

# Sets the interface up and restores its lost addresses and routes.
lab_host_up() { # host site-number
	lab_ip "$1" link set rdma0 up
	lab_ip "$1" -6 addr replace "fd00:101:$2::2/64" dev rdma0 nodad
	lab_ip "$1" route replace default via "10.101.$2.1"
	lab_ip "$1" -6 route replace default via "fd00:101:$2::1"
}

lab_host() { # host edge site-number
	local i
	lab_veth "$1" rdma0 "$2" lan0
	for i in 2 3 4 5 6 7 8 9; do
		lab_ip "$1" addr add "10.101.$3.$i/24" dev rdma0
	done
	lab_offload "$1" rdma0 tso off gso off gro off
	lab_host_up "$1" "$3"
	[ -z "$LAB_HAS_VLAN" ] || lab_vlan "$1" rdma0 "10.101.1$3.2/24" "10.101.1$((3 - $3)).0/24" "10.101.1$3.1"
}

lab_vlan() { # namespace interface address [other-network gateway]
	lab_ip "$1" link add "$2.100" link "$2" type vlan id 100
	lab_ip "$1" addr add "$3" dev "$2.100"
	lab_ip "$1" link set "$2.100" up
	[ -z "${4:-}" ] || lab_ip "$1" route add "$4" via "$5"
}

# The edge's end of the cable to its host.
lab_edge_lan() { # edge site-number
	lab_ip "$1" addr add "10.101.$2.1/24" dev lan0
	lab_ip "$1" -6 addr add "fd00:101:$2::1/64" dev lan0 nodad
	lab_ip "$1" link set lan0 up
	[ -z "$LAB_HAS_VLAN" ] || lab_vlan "$1" lan0 "10.101.1$2.1/24"
}

# Addresses and routes on the WAN side.
lab_edge_wan() { # edge site-number
	local other=$((3 - $2))
	lab_ip "$1" addr replace "192.0.2.$2/24" dev wan0
	lab_ip "$1" -6 addr replace "2001:db8::$2/64" dev wan0 nodad
	lab_ip "$1" link set wan0 up
	lab_ip "$1" route replace "10.101.$other.0/24" via "192.0.2.$other"
	lab_ip "$1" route replace "10.101.1$other.0/24" via "192.0.2.$other"
	lab_ip "$1" -6 route replace "fd00:101:$other::/64" via "2001:db8::$other"
}

lab_edge() { # edge site-number
	lab_edge_lan "$@"
	lab_edge_wan "$@"
	lab_sysctl "$1" net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
	# The line must see packets of wire size with finished checksums; received packets may be joined again.
	lab_offload "$1" wan0 tso off gso off tx-udp-segmentation off tx off gro on
}

# The cable between host and edge is gone; a new one.
lab_unplug() { # a|b
	lab_ip "e$1" link del lan0
}

lab_plug_in() { # a|b
	local site=1
	[ "$1" = a ] || site=2
	lab_host "h$1" "e$1" $site
	lab_edge_lan "e$1" $site
}

lab_up() {
	local ns i
	[ "$(id -u)" = 0 ] || lab_die "network namespaces need root"
	[ -x "$LAB_TOOLS/wanline" ] || lab_die "$LAB_TOOLS/wanline is not built (make O=...)"
	trap lab_down EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	lab_sweep
	LAB_DIR=$(mktemp -d "/tmp/$LAB_ID.XXXXXX")
	LAB_SHM=/dev/shm/$LAB_ID
	mkdir -p "$LAB_SHM"
	for ns in ha ea line eb hb; do
		lab_add_ns "$ns"
	done
	LAB_HAS_VLAN=
	lab_ip line link add link lo name v type vlan id 2 2>/dev/null && LAB_HAS_VLAN=yes && lab_ip line link del v
	lab_veth ea wan0 line wa
	lab_veth eb wan0 line wb
	for i in wa wb; do
		lab_sysctl line "net.ipv6.conf.$i.disable_ipv6=1"
		lab_ip line link set "$i" up
	done
	lab_host ha ea 1
	lab_host hb eb 2
	lab_edge ea 1
	lab_edge eb 2
	"$LAB_BIN/longreach" keygen link --dir "$LAB_DIR/keys" >"$LAB_DIR/keygen.out" || lab_die "no keys: see keygen.out"
}

# Ends the processes of one of our namespaces: SIGTERM first.
lab_end_pids() {
	local pids tries
	pids=$(ip netns pids "$LAB_ID-$1" 2>/dev/null) || return 0
	[ -n "$pids" ] || return 0
	kill $pids 2>/dev/null
	for tries in 1 2 3 4 5 6 7 8 9 10; do
		sleep 0.05
		pids=$(ip netns pids "$LAB_ID-$1" 2>/dev/null)
		[ -n "$pids" ] || return 0
	done
	kill -9 $pids 2>/dev/null
}

lab_down() {
	local status=$? ns
	trap '' INT TERM HUP
	trap - EXIT
	[ -n "$LAB_DIR" ] || exit "$status"
	for ns in ha hb ea eb line $LAB_MORE_NS; do
		lab_end_pids "$ns"
		ip netns del "$LAB_ID-$ns" 2>/dev/null
	done
	wait 2>/dev/null
	grep -o " $LAB_DIR/[^ ]*" /proc/mounts | while read -r ns; do umount -l "$ns"; done
	if [ -n "${LAB_KEEP:-}" ]; then
		echo "lab: files kept in $LAB_DIR" >&2
	else
		rm -rf "$LAB_DIR"
	fi
	for ns in a b; do
		while umount -l "$LAB_SHM/$ns" 2>/dev/null; do :; done
	done
	rm -rf "$LAB_SHM"
	LAB_DIR=
	exit "$status"
}

# --- the line ---

lab_line() { # wanline options...
	lab_line_stop
	ip netns exec "$LAB_ID-line" "$LAB_TOOLS/wanline" --ctl "$LAB_DIR/line.sock" --json "$LAB_DIR/line.json" "$@" wa wb \
		2>>"$LAB_DIR/line.log" &
	LAB_LINE_PID=$!
	lab_wait 3 lab_line_ctl show || lab_die "the line does not start: $(tail -1 "$LAB_DIR/line.log")"
}

# A line of no length whose rate is the machine's: a bridge, which carries nothing but what the edges send.
lab_cable() {
	local i
	lab_line_stop
	lab_ip line link add cable type bridge || lab_die "this kernel has no bridge"
	for i in wa wb; do
		lab_ip line link set "$i" master cable
	done
	lab_ip line link set cable mtu 9000 up
}

lab_line_ctl() { # cut | uncut | set key=value... | stats | show
	"$LAB_TOOLS/wanline" ctl "${LAB_LINE_CTL:-$LAB_DIR/line.sock}" "$@" >"$LAB_DIR/ctl.out" 2>&1 || return 1
	case $1 in stats | show) cat "$LAB_DIR/ctl.out" ;; esac
}

# Back to a clean line of KM, then the other settings.
lab_line_set() { # km [key=value...]
	local km=$1
	shift
	lab_line_ctl set "km=$km" loss=0 burst=1 reorder=0 dup=0 corrupt=0 jitter=0 "$@" ||
		lab_die "the line refuses: $(cat "$LAB_DIR/ctl.out")"
}

# Counts from now on hosts' packets that come from the edges unsealed: there may be none on the line.
lab_watch_line() {
	local i
	for i in wa wb; do
		lab_in line nft -f - <<-END
			table netdev watch_$i {
				chain in {
					type filter hook ingress device "$i" priority 0; policy accept;
					ip saddr 10.101.0.0/16 counter
					ip daddr 10.101.0.0/16 counter
					ip6 saddr fd00:101::/32 counter
					ip6 daddr fd00:101::/32 counter
				}
			}
		END
	done
}

lab_unsealed() {
	lab_in line nft list ruleset | awk '{ for (i = 1; i < NF; i++) if ($i == "packets") n += $(i + 1) } END { print n + 0 }'
}

lab_line_stop() {
	[ -n "$LAB_LINE_PID" ] || return 0
	kill "$LAB_LINE_PID" 2>/dev/null
	wait "$LAB_LINE_PID" 2>/dev/null
	LAB_LINE_PID=
}

# --- the edges ---

lab_conf() { # a|b: this edge's link file; extra lines "Section.Key=Value" ("Section_NAME.Key=Value" of several) in $LAB_EXTRA_A, $LAB_EXTRA_B or $LAB_EXTRA
	local here=1 there=2 wan_here wan_there extra=$LAB_EXTRA_A
	if [ "$1" = b ]; then
		here=2 there=1 extra=$LAB_EXTRA_B
	fi
	wan_here=192.0.2.$here wan_there=192.0.2.$there
	if [ -n "${LAB_WAN_A:-}" ]; then
		wan_here=$LAB_WAN_A wan_there=$LAB_WAN_B
		[ "$1" = a ] || wan_here=$LAB_WAN_B wan_there=$LAB_WAN_A
	elif [ "$LAB_FAMILY" = 6 ]; then
		wan_here=2001:db8::$here wan_there=2001:db8::$there
	fi
	{
		cat <<-END
			Link.LanPort=lan0
			Link.LocalPrefix=10.101.$here.0/24
			Link.LocalPrefix=10.101.1$here.0/24
			Link.LocalPrefix=fd00:101:$here::/64
			Link.RemotePrefix=10.101.$there.0/24
			Link.RemotePrefix=10.101.1$there.0/24
			Link.RemotePrefix=fd00:101:$there::/64
			Link.AckMode=$LAB_MODE
			Path.LocalAddress=$wan_here
			Path.RemoteAddress=$wan_there
			Path.Rate=$LAB_RATE
			Path.MTU=$LAB_WAN_MTU
			Buffer.Directory=$LAB_SHM/$1
			Buffer.Size=$LAB_BUFFER
			Security.Encryption=$LAB_ENCRYPTION
		END
		[ "$LAB_ENCRYPTION" = none ] || lab_keys_conf "$1"
		[[ "${extra:-} ${LAB_EXTRA:-}" = *Link.FEC=* ]] || echo "Link.FEC=$LAB_FEC"
		printf '%s\n' ${extra:-} ${LAB_EXTRA:-}
	} | awk -F. '
		NF > 1 {
			section = $1; line = substr($0, length($1) + 2)
			if (!(section in text)) order[++n] = section
			text[section] = text[section] line "\n"
		}
		END { for (i = 1; i <= n; i++) { name = order[i]; sub("_", " ", name); printf "[%s]\n%s\n", name, text[order[i]] } }'
}

lab_keys_conf() { # a|b
	local there=b
	[ "$1" = a ] || there=a
	cat <<-END
		Security.Certificate=$LAB_DIR/keys/$1/link.crt
		Security.Key=$LAB_DIR/keys/$1/link.key
		Security.CA=$LAB_DIR/keys/$1/link.ca.crt
		Security.PeerName=${LAB_PEER_NAME:-$there.link}
	END
}

lab_conf_path() { # a|b
	echo "$LAB_DIR/$1/${LAB_CONF_NAME:-link}.conf"
}

lab_edge_start() { # a|b
	mkdir -p "$LAB_DIR/$1" "$LAB_SHM/$1"
	lab_conf "$1" >"$(lab_conf_path "$1")"
	LAB_EDGE=$1 ip netns exec "$LAB_ID-e$1" "$LAB_BIN/longreachd" --control "$LAB_DIR/$1/control" \
		--config "$(lab_conf_path "$1")" ${LAB_PCAP:+--pcap "$LAB_PCAP/$1"} ${LAB_DAEMON_ARGS:-} \
		>>"$LAB_DIR/$1/log" 2>&1 &
	LAB_EDGE_PID[$1]=$!
}

# The process that carries packets; LAB_EDGE_PID is that of its privileged parent.
lab_edge_child() { # a|b
	pgrep -P "${LAB_EDGE_PID[$1]}" -x longreachd
}

# A child that was killed dies a moment after its parent, and holds sockets and buffers until its last thread is gone.
lab_gone() { # pid
	! grep -qs '^Threads:.[2-9]' "/proc/$1/status" && ! grep -qs '^State:.[^Z]' "/proc/$1/status"
}

lab_edge_stop() { # a|b [signal]
	local pid=${LAB_EDGE_PID[$1]:-} child
	[ -n "$pid" ] || return 0
	child=$(lab_edge_child "$1")
	kill "-${2:-TERM}" "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
	LAB_EDGE_LAST=$?
	[ -z "$child" ] || lab_wait 5 lab_gone "$child"
	unset "LAB_EDGE_PID[$1]"
	[ "${2:-TERM}" = KILL ] || [ $LAB_EDGE_LAST = 0 ] || LAB_EDGE_BAD="edge $1 ended with status $LAB_EDGE_LAST"
	! grep -qE 'Sanitizer|runtime error:' "$LAB_DIR/$1/log" || LAB_EDGE_BAD="edge $1: a sanitizer's report in its log"
	# The parent starts another process, so traffic hardly shows that one crashed: SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS.
	[ -n "$LAB_CRASH_MEANT" ] || ! grep -qE 'ended by signal (4|6|7|8|11|31) ' "$LAB_DIR/$1/log" ||
		LAB_EDGE_BAD="edge $1: the process that carries packets has crashed"
}

lab_edge_alive() { # a|b
	[ -n "${LAB_EDGE_PID[$1]:-}" ] && kill -0 "${LAB_EDGE_PID[$1]}" 2>/dev/null
}

# From here on edges are started by another program: LAB_BIN is a folder with a script in the daemon's place.
lab_daemon_under() { # command...
	LAB_REAL_BIN=${LAB_REAL_BIN:-$LAB_BIN}
	mkdir -p "$LAB_DIR/bin"
	printf '#!/bin/sh\nexec %s %s/longreachd "$@"\n' "$*" "$LAB_REAL_BIN" >"$LAB_DIR/bin/longreachd"
	ln -sf "$LAB_REAL_BIN/longreach" "$LAB_DIR/bin/longreach"
	chmod 755 "$LAB_DIR/bin" "$LAB_DIR/bin/longreachd"
	LAB_BIN=$LAB_DIR/bin
}

# Edges that are started from here on have wall clocks of their own, which lab_clock sets.
lab_own_clocks() {
	lab_clock a 0
	lab_clock b 0
	lab_daemon_under env "LD_PRELOAD=$LAB_TOOLS/clock_shift.so" "CLOCK_SHIFT_FILE=$LAB_DIR/clock.\$LAB_EDGE" \
		"ASAN_OPTIONS=\$ASAN_OPTIONS:verify_asan_link_order=0"
}

# Writes in place, because the running daemon has the file mapped.
lab_clock() { # a|b seconds-ahead
	perl -e 'open(my $f, "+>>", $ARGV[0]); close $f; open($f, "+<", $ARGV[0]) or die; syswrite $f, pack("q", $ARGV[1] * 1e9)' \
		"$LAB_DIR/clock.$1" "$2"
}

lab_daemon_alone() {
	LAB_BIN=${LAB_REAL_BIN:-$LAB_BIN}
}

lab_edges() {
	lab_edge_start a
	lab_edge_start b
}

# As systemd does before the network is up, and after the end of a daemon.
lab_close() { # a|b
	lab_in "e$1" "$LAB_BIN/longreachd" --close --config-dir "$LAB_DIR/$1" >>"$LAB_DIR/close.log" 2>&1
}

# The way back to direct RDMA: removes the link file.
lab_open() { # a|b
	[ -d "$LAB_DIR/$1" ] || return 0
	rm -rf "${LAB_DIR:?}/$1"/*.conf "${LAB_SHM:?}/$1"
	lab_close "$1"
}

lab_edges_stop() {
	lab_edge_stop a
	lab_edge_stop b
	lab_open a
	lab_open b
}

# The control socket is a file: no need to enter the edge's namespace.
lab_client() { # a|b longreach-arguments...
	local edge=$1
	shift
	"$LAB_BIN/longreach" --control "$LAB_DIR/$edge/control" "$@"
}

# A value of `longreach status --json`, by a jq expression.
lab_status() { # a|b expression
	lab_client "$1" status --json 2>>"$LAB_DIR/client.err" | jq -r "$2"
}

# A running edge takes another Rate=. So the moment at which a test breaks in on a transfer lies within it, on any machine.
lab_set_rate() { # a|b rate
	sed -i "s/^Rate=.*/Rate=$2/" "$(lab_conf_path "$1")"
	lab_client "$1" reload >"$LAB_DIR/reload.out" 2>&1
}

lab_link_is_up() {
	[ "$(lab_status a '.links[0].state')" = up ] && [ "$(lab_status b '.links[0].state')" = up ]
}

lab_link_up() {
	lab_wait 10 lab_link_is_up && return 0
	echo "lab: the link does not come up" >&2
	lab_logs >&2
	return 1
}

# Restarts both edges with the present LAB_* settings, on a line of KM.
lab_relink() { # km [line options as words]
	lab_edges_stop
	lab_line_set "$@"
	lab_edges
	lab_link_up
}

lab_logs() {
	local e
	for e in a b; do
		[ -s "$LAB_DIR/$e/log" ] &&
			sed "/\[flow_opened\]$/d; /\[flow_paired\]$/d; s/^/    edge$e: /" "$LAB_DIR/$e/log" | tail -25
	done
	[ -s "$LAB_DIR/client.err" ] && tail -3 "$LAB_DIR/client.err"
	return 0
}

# --- waiting ---

# Repeats the command every 50 ms until it succeeds. SECONDS is what it takes on an idle machine, at most. A busy machine needs
# longer: the limit is ten times as long, at least half a minute, and only ends a hang.
lab_wait() { # seconds command...
	local limit=$(($1 < 3 ? 30 : 10 * $1)) end
	end=$((SECONDS + limit))
	shift
	while ! "$@" >/dev/null 2>&1; do
		[ $SECONDS -le $end ] || return 1
		sleep 0.05
	done
}

# A clock in milliseconds that stands still while any program on this machine waits for a processor (/proc/pressure/cpu). A
# promise of time is judged by this clock: how busy the machine is does not count. Without /proc/pressure, the wall clock.
lab_free_ms() {
	local waited_us=0
	[ ! -r /proc/pressure/cpu ] || waited_us=$(sed -n 's/^some .*total=//p' /proc/pressure/cpu)
	echo $(((${EPOCHREALTIME/[.,]/} - waited_us) / 1000))
}

# lab_wait for what has to come within SECONDS by that clock; LAB_TOOK_MS is how long it took.
lab_within() { # seconds command...
	local start
	start=$(lab_free_ms)
	lab_wait "$@" || return
	LAB_TOOK_MS=$(($(lab_free_ms) - start))
	[ $LAB_TOOK_MS -le $(($1 * 1000)) ]
}

# Seconds for which the edges, the line and rcperf's servers have waited for a processor, all their threads together.
lab_waited_s() {
	local ns
	for ns in ea eb line hb; do
		ip netns pids "$LAB_ID-$ns"
	done | sed 's|.*|/proc/&/task|' | xargs -I{} find {} -maxdepth 2 -name schedstat 2>/dev/null | xargs cat 2>/dev/null |
		awk '{ s += $2 } END { printf "%.3f", s / 1e9 }'
}

# For tests that measure a rate: runs the command, and skips the test (77) if it fails although the programs of this lab had to
# wait for a processor for more than a quarter of its time. How long is part of the reason.
lab_rate_test() { # command...
	local start=$EPOCHREALTIME before status waited
	before=$(lab_waited_s)
	"$@"
	status=$?
	[ $status != 0 ] || [ -n "$WHY" ] || return 0
	waited=$(awk "BEGIN { printf \"%.1f\", $(lab_waited_s) - $before }")
	awk "BEGIN { exit !($waited > ($EPOCHREALTIME - $start) / 4) }" || return $((status ? status : 1))
	WHY="the processors were taken: edges, line and server waited for them for $waited s of $(
		awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $start }") s; ${WHY:-}"
	return 77
}

# --- traffic: the user-space RC endpoint, server at site B, client at site A ---

lab_listens() { # namespace port
	lab_in "$1" ss -Hltn "sport = :$2" | grep -q .
}

LAB_SERVER_PIDS=

# A process and all below it.
lab_children() { # pid
	local child
	echo "$1"
	for child in $(pgrep -P "$1"); do
		lab_children "$child"
	done
}

# A server that runs one test after the other. Several may run, on different addresses or ports.
lab_server() { # address options...
	local addr=$1 port=18515
	shift
	[[ " $* " =~ " --port "([0-9]+) ]] && port=${BASH_REMATCH[1]}
	ip netns exec "$LAB_ID-hb" "$LAB_TOOLS/rcperf" server --quiet --dev "${LAB_DEV:-rdma0}" --addr "$addr" "$@" \
		>>"$LAB_DIR/server.log" 2>&1 &
	LAB_SERVER_PIDS="$LAB_SERVER_PIDS $!"
	lab_wait 3 lab_listens hb "$port"
}

lab_servers_stop() {
	[ -n "$LAB_SERVER_PIDS" ] || return 0
	kill $LAB_SERVER_PIDS 2>/dev/null
	wait $LAB_SERVER_PIDS 2>/dev/null
	LAB_SERVER_PIDS=
}

# One test of A against B; its JSON is in $LAB_DIR/client.json. The status is the client's: 0 if every message was
# executed exactly once, in order, with the right bytes.
lab_rcperf() { # options...
	lab_rcperf_between "${LAB_FROM:-$A_HOST}" "${LAB_TO:-$B_HOST}" "$LAB_DIR/client.json" "$@"
}

lab_rcperf_between() { # from to json-file options...
	timeout --foreground -s INT "${LAB_PATIENCE:-60}" ip netns exec "$LAB_ID-ha" "$LAB_TOOLS/rcperf" client \
		--dev "${LAB_DEV:-rdma0}" --addr "$1" --peer "$2" --json "${@:4}" >"$3" 2>"$LAB_DIR/rcperf.err"
}

# Traffic of A against B for as long as a test needs it: lab_load rcperf-options..., and when its packets arrive at edge A the
# test goes on; lab_load_end ends it in good order, with lab_rcperf's status and result. At most LAB_PATIENCE seconds (300).
LAB_LOAD=
lab_load() { # rcperf-options...
	LAB_PATIENCE=${LAB_PATIENCE:-300} lab_rcperf --secs 3600 "$@" &
	LAB_LOAD=$!
	lab_load_moves
}

# Waits for another twenty packets from A's host. Fails if there is no load any more.
lab_load_moves() {
	local from
	from=$(lab_lan_rx)
	lab_wait 10 lab_load_moved "$from" && lab_load_runs
}

lab_load_moved() { # since the count of packets
	! lab_load_runs || [ "$(lab_lan_rx)" -ge $(($1 + 20)) ]
}

lab_load_runs() {
	kill -0 "$LAB_LOAD" 2>/dev/null
}

lab_lan_rx() {
	lab_status a '.links[0].counters.lan_rx_packets // 0'
}

# rcperf takes the signal for the end of its time.
lab_load_end() { # [signal]
	local pid
	for pid in $(lab_children "$LAB_LOAD"); do
		[ "$(cat "/proc/$pid/comm" 2>/dev/null)" != rcperf ] || kill "-${1:-USR1}" "$pid"
	done
	wait "$LAB_LOAD"
	local status=$?
	LAB_LOAD=
	return $status
}

# Options of a host that repeats after milliseconds and does not give up within half a minute: a daemon that a test has killed
# takes seconds to come back on a busy machine.
LAB_PATIENT="--adaptive-retrans --timeout-ms 4000"

lab_result() { # jq expression on the last result
	jq -r "$1" "$LAB_DIR/client.json"
}

# From the last result: packets that the requesters sent, also in vain, for each of 4 KiB that was delivered.
lab_sent_per_delivered() {
	tail -1 "$LAB_DIR/client.json" | jq -r '.here.tx_packets * 4096 / ([.there.bytes_exec, 1] | max) * 100 | round / 100'
}

# From the last result: messages completed, or executed by the other host; the smaller number if both are known.
lab_goodput_gbps() {
	tail -1 "$LAB_DIR/client.json" | jq -r '[.goodput_gbps, .there.executed_gbps] | map(select(. > 0)) | min'
}
