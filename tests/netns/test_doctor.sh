#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# longreach doctor: the test plants one fault at a time, which the doctor must name; for a healthy pair it must print nothing.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

doctor() { # a|b options...
	lab_in "e$1" "$LAB_BIN/longreach" --control "$LAB_DIR/$1/control" doctor "${@:2}"
}

# Leaves the doctor's findings in $EXAMINED and its exit status in STATUS.
examine() { # a|b options...
	doctor "$@" >"$EXAMINED" 2>"$EXAMINED.err"
	STATUS=$?
	echo $STATUS >"$EXAMINED.status"
}

found() { # the names of what was found, each once
	sed 's/^link: //; s/:.*//' "$LAB_DIR/doctor" | sort -u | tr '\n' ' '
}

names() { # a|b check
	examine "$1"
	[ $STATUS = 1 ] && grep -qE "^(link: )?$2: .* -> " "$LAB_DIR/doctor"
}

# One run of the doctor takes a second. On an idle machine eight are enough.
soon() { # command...
	local i
	for ((i = 0; i < 40; i++)); do
		"$@" && return
	done
	return 1
}

# The doctor names the fault soon, and other findings only if they are expected with this fault.
finds() { # a|b check [others...]
	local edge=$1 check=$2 other
	shift 2
	soon names "$edge" "$check" || why "exit code $STATUS, it finds: $(found)$(head -1 "$LAB_DIR/doctor.err")" || return
	NOTE=$(grep -m1 "$check: " "$LAB_DIR/doctor" | sed "s/^link: //; s|$LAB_DIR|DIR|g" | cut -c1-120)
	for other in $(found); do
		[[ " $check $* " = *" $other "* ]] || why "and it finds $other: $(grep -m1 "$other: " "$LAB_DIR/doctor")" || return
	done
}

# What `status --check` finds the doctor must find as well: where it says nothing, the check is content.
is_healthy() { # a|b
	examine "$1"
	[ $STATUS = 0 ] && [ ! -s "$EXAMINED" ] && [ ! -s "$EXAMINED.err" ] || return
	lab_client "$1" status --check >/dev/null 2>"$EXAMINED.err" || ! echo "only --check" >"$EXAMINED"
}

# Runs on both edges at once, each with its own files.
both() { # command...: its last argument is the edge
	local edge=a pid r
	(EXAMINED=$LAB_DIR/doctor.b && "$@" b) &
	pid=$!
	EXAMINED=$LAB_DIR/doctor.a
	"$@" a
	r=$?
	EXAMINED=$LAB_DIR/doctor
	wait $pid || { edge=b r=1; }
	[ $r = 0 ] || why "edge $edge, exit code $(cat "$EXAMINED.$edge.status"): $(cat "$EXAMINED.$edge" "$EXAMINED.$edge.err" | head -1)"
}

# At once: a link that has just come up is healthy.
says_nothing() {
	both is_healthy
}

# The fault has been repaired.
is_well_again() {
	both soon is_healthy
}

relink() { # of $LAB_*
	lab_edges_stop
	lab_edges
	lab_link_up
}

# --- healthy ---

healthy_runs() { # how many
	local i
	for ((i = 0; i < $1; i++)); do
		says_nothing || return
	done
	NOTE="$1 runs at both edges"
}

# Hosts at work, all operations, from before the first look.
healthy_under_load() {
	local status=0
	lab_load --op mix --qps 4 --size 20000 || why "no traffic" || return
	healthy_runs 3 || status=1
	lab_load_end || why "contents, order or count are wrong" || return
	[ $status = 0 ]
}

healthy_json() {
	examine a --json
	[ $STATUS = 0 ] && [ "$(jq -r '"\(.healthy) \(.findings | length)"' "$LAB_DIR/doctor")" = "true 0" ] ||
		why "exit code $STATUS: $(head -c 100 "$LAB_DIR/doctor")"
}

# The names of --list and of the manual are the same.
list_is_documented() {
	doctor a --list | cut -d: -f1 | sort >"$LAB_DIR/listed"
	sed -n '/^.SH WHAT THE DOCTOR FINDS/,/^.SH /s/^\.B \([a-z_]*\)$/\1/p' "$LAB_ROOT/etc/man/longreach.1" | sort >"$LAB_DIR/manual"
	NOTE="$(wc -l <"$LAB_DIR/listed") names"
	[ "$(wc -l <"$LAB_DIR/listed")" -ge 25 ] || why "$NOTE" || return
	diff "$LAB_DIR/listed" "$LAB_DIR/manual" >"$LAB_DIR/out" || why "$(grep -m1 '^[<>]' "$LAB_DIR/out")"
}

# --- the daemon, the file ---

no_daemon() {
	local status
	lab_edge_stop a
	examine a --config-dir "$LAB_DIR/a"
	NOTE=$(head -1 "$LAB_DIR/doctor" | cut -c1-100)
	[ $STATUS = 1 ] && [ "$(found)" = "no_daemon " ] || why "exit code $STATUS, it finds: $(found)" || return
	lab_in ea nft flush ruleset
	examine a --config-dir "$LAB_DIR/a"
	status=$(found)
	lab_edge_start a
	lab_link_up || return
	[ "$status" = "nft_rules no_daemon " ] || why "without rules of nft it finds: $status"
}

no_such_link() {
	examine a nosuch
	[ $STATUS = 2 ] || why "exit code $STATUS"
}

# A user who may not read the state must not be told that all is well.
not_allowed() {
	chmod 711 "$LAB_DIR" "$LAB_DIR/a"
	cp "$LAB_BIN/longreach" "$LAB_DIR/longreach"
	lab_in ea setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "$LAB_DIR/longreach" \
		--control "$LAB_DIR/a/control" doctor >"$LAB_DIR/doctor" 2>"$LAB_DIR/doctor.err"
	STATUS=$?
	NOTE=$(head -1 "$LAB_DIR/doctor.err" | sed "s|$LAB_DIR|DIR|g")
	[ $STATUS = 2 ] && [[ $NOTE = *"run longreach as root"* ]] || why "exit code $STATUS: $NOTE"
}

bad_file() {
	cp "$(lab_conf_path a)" "$LAB_DIR/good.conf"
	sed -i 's/^AckMode=.*/AckMode=maybe/; s/^Size=.*/Size=banana/' "$(lab_conf_path a)"
	finds a link_file || return
	[ "$(grep -c link_file "$LAB_DIR/doctor")" = 2 ] || why "it does not tell both errors" || return
	cp "$LAB_DIR/good.conf" "$(lab_conf_path a)"
	is_well_again
}

changed_file() {
	sed -i 's/^Rate=.*/Rate=300M/' "$(lab_conf_path a)"
	finds a not_reloaded || return
	lab_client a reload >/dev/null
	is_well_again || return
	cp "$(lab_conf_path a)" "$LAB_DIR/good.conf"
	printf '\n[Link]\nPairAckMode=10.101.1.9/32~10.101.2.0/24=host\n' >>"$(lab_conf_path a)"
	finds a not_reloaded || return
	# another order and comments are no change
	{ echo "# a comment"; cat "$LAB_DIR/good.conf"; } >"$(lab_conf_path a)"
	is_well_again
}

no_link() {
	mv "$(lab_conf_path a)" "$LAB_DIR/good.conf"
	lab_client a reload >/dev/null
	finds a no_link || return
	mv "$LAB_DIR/good.conf" "$(lab_conf_path a)"
	lab_client a reload >/dev/null
	is_well_again
}

# --- ports, routes, neighbours ---

lan_port_down() {
	lab_ip ea link set lan0 down
	finds a lan_port local_route nft_rules || return
	lab_edge_lan ea 1
	is_well_again
}

lan_mtu_small() {
	lab_load --mtu 4096 --depth 4 || why "no traffic" || return
	lab_ip ea link set lan0 mtu 1500
	lab_client a reload >/dev/null
	finds a lan_mtu lan_port stalled || return
	lab_ip ea link set lan0 mtu 9000
	lab_client a reload >/dev/null
	lab_load_end INT
	is_well_again
}

host_silent() {
	# shellcheck disable=SC2086 # several words
	lab_load --depth 4 $LAB_PATIENT || why "no traffic" || return
	lab_ip hb link set rdma0 arp off
	lab_ip eb neigh flush dev lan0
	finds b lan_neighbour return_path stalled buffer_full
	local r=$?
	lab_ip hb link set rdma0 arp on
	lab_load_end
	[ $r = 0 ] || return
	is_well_again
}

no_local_route() {
	lab_ip ea addr del 10.101.1.1/24 dev lan0
	finds a local_route rp_filter || return
	lab_ip ea addr add 10.101.1.1/24 dev lan0
	is_well_again
}

no_remote_route() {
	lab_ip ea route del 10.101.2.0/24 via 192.0.2.2
	finds a remote_route || return
	lab_ip ea route add 10.101.2.0/24 via 192.0.2.2
	is_well_again
}

wan_address_gone() {
	lab_ip ea addr del 192.0.2.1/24 dev wan0
	finds a wan_port lan_port wan_neighbour path_down control firewall || return
	lab_edge_wan ea 1
	is_well_again
}

wan_neighbour_silent() {
	lab_ip eb link set wan0 arp off
	lab_ip ea neigh flush dev wan0
	lab_ip eb neigh flush dev wan0
	finds a wan_neighbour path_down path_asymmetric control || return
	lab_ip eb link set wan0 arp on
	is_well_again
}

firewall() { # nft's words
	lab_in ea nft -f - <<-END
		table inet operator {
			$1
		}
	END
	finds a firewall path_down path_asymmetric control || return
	lab_in ea nft delete table inet operator
	is_well_again
}

# Rules that accept the link's packets and drop others.
good_firewall() {
	lab_in ea nft -f - <<-END
		table inet operator {
			chain input {
				type filter hook input priority 0; policy drop;
				ct state invalid drop
				ct state established,related accept
				ip saddr 192.0.2.2 udp dport { 53, 4790 } accept
				ip saddr 192.0.2.0/24 tcp dport 4790-4792 accept
				meta l4proto { icmp, icmpv6 } accept
				iifname "lan0" accept
				udp dport 1-10 drop
			}
		}
	END
	lab_line_ctl cut || why "the line cannot be cut" || return
	finds a path_down control wan_neighbour
	local r=$?
	lab_line_ctl uncut
	lab_in ea nft delete table inet operator
	[ $r = 0 ] || return
	is_well_again
}

# The route back leads out of another interface than the one where the other edge's datagrams arrive.
rp_filter_wan() {
	lab_sysctl ea net.ipv4.conf.wan0.rp_filter=1
	says_nothing || return
	lab_ip ea link add other0 type veth peer name other1
	lab_ip ea link set other1 up
	lab_ip ea link set other0 up
	lab_ip ea route add 192.0.2.2/32 dev other0
	finds a rp_filter wan_neighbour path_down path_asymmetric control || return
	lab_ip ea link del other0
	lab_sysctl ea net.ipv4.conf.wan0.rp_filter=0
	is_well_again
}

# --- the other edge ---

other_edge_gone() {
	lab_edge_stop b
	finds a control path_down || return
	lab_edge_start b
	is_well_again
}

# Stopped by an operator: the doctor reports this, and not its consequences.
other_edge_stopped() {
	lab_client b stop link >/dev/null
	sleep 3 # until the link counts as silent
	finds a link_failed || return
	[[ $NOTE = *"stopped the link at the other edge"* ]] || why "$NOTE" || return
	lab_client b start link >/dev/null
	is_well_again
}

one_way() {
	lab_in eb nft add table inet operator
	lab_in eb nft 'add chain inet operator input { type filter hook input priority 0; }'
	lab_in eb nft add rule inet operator input udp dport 4790 drop
	finds a path_asymmetric || return
	finds b firewall path_down || return
	lab_in eb nft delete table inet operator
	is_well_again
}

line_cut() {
	lab_line_ctl cut || why "the line cannot be cut" || return
	finds a path_down control wan_neighbour || return
	lab_line_ctl uncut
	is_well_again
}

narrow_line() {
	lab_ip line link set wb mtu 3000
	relink && finds a path_mtu
	local r=$?
	lab_ip line link set wb mtu 9000
	relink
	[ $r = 0 ] || return
	is_well_again
}

wrong_distance() {
	LAB_EXTRA=Link.Distance=3000km relink || return
	finds a distance
}

wrong_name() {
	lab_edge_stop a
	LAB_PEER_NAME=c.link lab_edge_start a
	finds a peer_name path_down control
}

files_differ() {
	lab_edge_stop b
	LAB_MODE=host lab_edge_start b
	finds a edges_differ control path_down path_asymmetric
}

rates_differ() {
	lab_edge_stop b
	LAB_RATE=2M lab_edge_start b
	finds a rates_apart path_down path_asymmetric control
}

old_keys() {
	"$LAB_BIN/longreach" keygen link --dir "$LAB_DIR/keys" --renew --days 5 >/dev/null || why "keygen" || return
	relink || return
	finds a certificate || return
	"$LAB_BIN/longreach" keygen link --dir "$LAB_DIR/keys" --renew >/dev/null
}

slow_clock() {
	lab_clock a -86400
	LD_PRELOAD=$LAB_TOOLS/clock_shift.so CLOCK_SHIFT_FILE=$LAB_DIR/clock.a ASAN_OPTIONS=verify_asan_link_order=0 finds a clock
}

# Edges with their own wall clocks, which are set while the link runs. The other edge also reports the difference, but no set
# clock.
clock_is_set() {
	lab_own_clocks
	relink && says_nothing || return
	lab_clock a -100
	sleep 2
	finds a clock_set clocks_apart || return
	[[ $NOTE = *"set back by 100 s"* ]] || why "$NOTE" || return
	finds a clocks_apart clock_set || return
	[[ $NOTE = *"this edge's clock is behind"* ]] || why "$NOTE" || return
	sleep 8
	finds b clocks_apart || return
	[[ $NOTE = *"this edge's clock is ahead"* ]] || why "$NOTE" || return
	lab_clock a 0
	lab_daemon_alone
	relink
	is_well_again
}

# --- the kernel's settings, memory ---

forwarding_off() {
	lab_sysctl ea net.ipv4.ip_forward=0
	finds a ip_forward || return
	lab_sysctl ea net.ipv4.ip_forward=1
	is_well_again
}

small_pages() {
	LAB_RATE=40G relink || return
	finds a huge_pages rates_apart
}

no_huge_pages() {
	lab_edges_stop
	mkdir -p "$LAB_SHM/a"
	mount -t hugetlbfs -o pagesize=2M none "$LAB_SHM/a" 2>/dev/null || {
		WHY="no hugetlbfs here"
		return 77
	}
	lab_edges
	finds a huge_pages link_failed control
	local r=$?
	lab_edges_stop
	umount "$LAB_SHM/a"
	return $r
}

mount_too_small() {
	lab_edges_stop
	mkdir -p "$LAB_SHM/a"
	mount -t tmpfs -o size=16M none "$LAB_SHM/a"
	lab_edges
	finds a buffer_memory link_failed
	local r=$?
	lab_edges_stop
	umount "$LAB_SHM/a"
	return $r
}

# ip netns exec gives each program its own mount namespace with its own /sys.
with_files() { # shell commands that put files into place
	lab_in ea bash -c "$1; exec $LAB_BIN/longreach --control $LAB_DIR/a/control doctor" >"$LAB_DIR/doctor" 2>"$LAB_DIR/doctor.err"
	STATUS=$?
	NOTE=$(head -1 "$LAB_DIR/doctor" | cut -c1-120)
}

swapped_out() {
	printf 'Filename\tType\n/swap\tfile\t1000\t0\t-2\n' >"$LAB_DIR/swaps"
	with_files "mount --bind $LAB_DIR/swaps /proc/swaps"
	if [ "$(awk '/^VmLck/ { print $2 }' "/proc/$(lab_edge_child a)/status")" -gt 100000 ]; then
		[ $STATUS = 0 ] || why "the buffer is locked: $(found)" || return
		WHY="the buffer is locked into memory here"
		return 77
	fi
	[ "$(found)" = "memlock " ] || why "exit code $STATUS, it finds: $(found)"
}

other_node() {
	LAB_EXTRA_A=Link.CPUs=1 relink || return
	with_files "mount -t tmpfs none /sys/class; mkdir -p /sys/class/net/lan0/device; echo 0 >/sys/class/net/lan0/device/numa_node
		mount -t tmpfs none /sys/devices/system/node; mkdir /sys/devices/system/node/node0; echo 0,2-7 >/sys/devices/system/node/node0/cpulist"
	[ "$(found)" = "numa " ] || why "exit code $STATUS, it finds: $(found)$(head -1 "$LAB_DIR/doctor.err")" || return
	with_files "mount -t tmpfs none /sys/class; mkdir -p /sys/class/net/lan0/device; echo 0 >/sys/class/net/lan0/device/numa_node
		mount -t tmpfs none /sys/devices/system/node; mkdir /sys/devices/system/node/node0; echo 0-7 >/sys/devices/system/node/node0/cpulist"
	[ $STATUS = 0 ] || why "on the same node it finds: $(found)"
}

roce_on() {
	local types=/sys/class/net/lan0/device/infiniband/mlx5_0/ports/1/gid_attrs/types
	with_files "mount -t tmpfs none /sys/class; mkdir -p $types; echo 'RoCE v2' >$types/0"
	[ "$(found)" = "enable_roce " ] || why "exit code $STATUS, it finds: $(found)$(head -1 "$LAB_DIR/doctor.err")"
}

relay_socket_gone() {
	LAB_EXTRA="Relay.Enable=yes Relay.Socket=$LAB_DIR/relay.sock" LAB_EXTRA_B="" relay_link || return
	rm -f "$LAB_DIR/run/a/relay.sock"
	finds a relay
}

# The daemon keeps its own view of /dev, in which no such files are.
gpu_files_missing() {
	[ ! -e /dev/nvidiactl ] || { NOTE="this machine has a GPU's driver"; return 77; }
	mkdir -p "$LAB_DIR/run/a" "$LAB_DIR/run/b"
	LAB_EXTRA="Relay.Enable=yes" LAB_EXTRA_A="Relay.GPU=yes Relay.Socket=$LAB_DIR/run/a/relay.sock" \
		LAB_EXTRA_B="Relay.Socket=$LAB_DIR/run/b/relay.sock" relink || return
	finds a gpu || return
	mkdir "$LAB_DIR/shm" # the buffer stays where it is
	with_files "mount --bind /dev/shm $LAB_DIR/shm; mount -t tmpfs none /dev; mkdir /dev/shm; mount --bind $LAB_DIR/shm /dev/shm
		touch /dev/nvidiactl /dev/nvidia-uvm"
	[ "$(found)" = "gpu " ] && grep -q "longreachd does not see /dev/nvidiactl" "$LAB_DIR/doctor" ||
		why "exit code $STATUS, with files that the daemon does not see it finds: $(found)$(head -1 "$LAB_DIR/doctor.err")"
}

relay_link() {
	lab_edges_stop
	mkdir -p "$LAB_DIR/run/a" "$LAB_DIR/run/b"
	LAB_EXTRA= LAB_EXTRA_A="Relay.Enable=yes Relay.Socket=$LAB_DIR/run/a/relay.sock" lab_edge_start a
	LAB_EXTRA= LAB_EXTRA_B="Relay.Enable=yes Relay.Socket=$LAB_DIR/run/b/relay.sock" lab_edge_start b
	lab_link_up && says_nothing
}

stray() {
	cp "$LAB_SHM/a/link.0.arena" "$LAB_SHM/a/old.0.arena"
	finds a stray_buffer
	local r=$?
	rm -f "$LAB_SHM/a/old.0.arena"
	[ $r = 0 ] || return
	is_well_again
}

# --- hosts ---

# The client is killed while the fault lasts: its result does not matter.
beside() { # rcperf options -- function arguments...
	local options=() r
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	lab_load "${options[@]}" >/dev/null 2>&1
	"$@"
	r=$?
	lab_load_end INT
	return $r
}

server_with() { # options...
	lab_servers_stop
	lab_server $B_HOST "$@"
}

answers_go_around() {
	lab_in hb nft 'add table netdev around
		add chain netdev around out { type filter hook egress device "rdma0" priority 0; }
		add rule netdev around out udp dport 4791 drop' 2>"$LAB_DIR/out" || {
		WHY="no egress hook here: $(head -1 "$LAB_DIR/out")"
		return 77
	}
	beside --depth 1 --qps 2 -- finds b return_path stalled
	local r=$?
	lab_in hb nft delete table netdev around
	return $r
}

requests_go_around() {
	lab_in hb nft delete table netdev around 2>/dev/null
	relink || return
	local mac
	mac=$(lab_in eb cat /sys/class/net/lan0/address)
	# a responder's answer to a request that bypassed the edge: an ACK to a queue pair that no flow has
	lab_in hb bash -c "for i in \$(seq 400); do echo; sleep 0.1; done" | lab_acks "$mac" &
	local pid=$!
	finds b request_path
	local r=$?
	kill $pid 2>/dev/null
	wait $pid 2>/dev/null
	return $r
}

# RoCEv2 ACKs, with their ICRC, from the host at site B to that at site A.
lab_acks() { # MAC of the edge
	local line
	while read -r line; do
		lab_in hb perl -e '
			use Socket; sub crc { my $c = 0xffffffff; for (unpack("C*", $_[0])) { $c ^= $_;
				$c = $c & 1 ? ($c >> 1) ^ 0xedb88320 : $c >> 1 for 1 .. 8 } return $c ^ 0xffffffff }
			my ($mac, $own) = @ARGV; my $bth = pack("CCnNN", 0x11, 0x40, 0xffff, 0x123, 0x456) . pack("N", 0x1f000001);
			my $udp = pack("nnnn", 49152, 4791, 8 + length($bth) + 4, 0);
			my $ip = pack("CCnnnCCna4a4", 0x45, 0, 20 + 8 + length($bth) + 4, 1, 0x4000, 64, 17, 0, inet_aton("10.101.2.2"), inet_aton("10.101.1.2"));
			my $sum = 0; $sum += $_ for unpack("n*", $ip); $sum = ($sum & 0xffff) + ($sum >> 16) for 1 .. 2;
			substr($ip, 10, 2) = pack("n", ~$sum & 0xffff);
			my $m = $ip; substr($m, 1, 1) = "\xff"; substr($m, 8, 1) = "\xff"; substr($m, 10, 2) = "\xff\xff";
			my $u = $udp; substr($u, 6, 2) = "\xff\xff"; my $b = $bth; substr($b, 4, 1) = "\xff";
			my $icrc = pack("V", crc("\xff" x 8 . $m . $u . $b));
			my $frame = pack("H12H12n", $mac, $own, 0x800) . $ip . $udp . $bth . $icrc;
			socket(my $s, 17, 3, 0) or die "socket $!";
			my $i = qx(cat /sys/class/net/rdma0/ifindex);
			send($s, $frame, 0, pack("SnlSCCa8", 17, 0x800, $i, 0, 0, 6, "")) or die "send $!";
			' "${1//:/}" "$(lab_in hb cat /sys/class/net/rdma0/address | tr -d :)" 2>>"$LAB_DIR/acks.err"
	done
}

host_hangs() {
	server_with --hang-ms 40000 --hang-after 1
	beside --depth 8 --timeout-ms 10000 -- finds b stalled lan_neighbour buffer_full
}

slow_rnr_timer() {
	server_with --rnr-timer-ms 655.36 --freeze-ms 60000 --freeze-after 20 --recv-depth 8
	beside --op send --size 4096 --depth 16 -- finds b rnr_timer buffer_full stalled
}

early_retry() {
	server_with
	LAB_MODE=host relink || return
	beside --size 4096 --depth 1 --qps 8 --adaptive-retrans --timeout-ms 2000 -- finds a retry_early
}

# States that cannot be reached within two seconds: the test changes the daemon's answer on its way.
answers() { # jq-filter check
	lab_client a status --flows --json >"$LAB_DIR/answer"
	answers_kept "$@"
}

answers_kept() { # jq-filter check
	local pid r
	cat >"$LAB_DIR/answer.sh" <<-END
		read -r request
		jq -c '$1' "$LAB_DIR/answer"
	END
	rm -f "$LAB_DIR/answers"
	socat "UNIX-LISTEN:$LAB_DIR/answers,fork" "EXEC:bash $LAB_DIR/answer.sh" 2>/dev/null &
	pid=$!
	lab_wait 3 test -S "$LAB_DIR/answers"
	examine a --control "$LAB_DIR/answers"
	r=$(found)
	kill $pid
	wait $pid 2>/dev/null
	NOTE=$(head -1 "$LAB_DIR/doctor" | cut -c1-120)
	[ "$r" = "$2${2:+ }" ] || why "it finds: $r$(head -1 "$LAB_DIR/doctor.err")"
}

# A running daemon would switch the offload off again.
gro_on() {
	local r
	lab_client a status --flows --json >"$LAB_DIR/answer"
	lab_edge_stop a
	lab_offload ea lan0 gro on
	answers_kept . offloads
	r=$?
	lab_offload ea lan0 gro off
	lab_edge_start a
	lab_link_up && [ $r = 0 ]
}

lab_up
EXAMINED=$LAB_DIR/doctor
lab_line --rate $LAB_LINE_RATE --km 300
lab_server $B_HOST
lab_edges
check "the link is up" lab_link_up
# FULL=1: every fault; else those that are planted within seconds.
long() {
	[ -z "${FULL:-}" ] || "$@"
}

check "a healthy pair: nothing" healthy_runs "$([ -n "${FULL:-}" ] && echo 20 || echo 2)"
check "a healthy pair with hosts at work: nothing" healthy_under_load
check "a healthy pair: --json says so" healthy_json
check "every name of --list is in the manual" list_is_documented
check "a link that does not exist: it cannot look" no_such_link
check "somebody who may not ask: it cannot look" not_allowed
check "no_daemon, nft_rules" no_daemon
check "link_file" bad_file
check "not_reloaded" changed_file
check "no_link" no_link
check "lan_port" lan_port_down
long check "lan_mtu" lan_mtu_small
check "lan_neighbour" host_silent
check "local_route" no_local_route
check "wan_port" wan_address_gone
check "wan_neighbour" wan_neighbour_silent
check "firewall: a rule" firewall 'chain input { type filter hook input priority 0; udp dport 4790 drop; }'
long check "firewall: a policy" firewall 'chain input { type filter hook input priority 0; policy drop; tcp dport { 22, 443 } accept; }'
long check "firewall: in a chain that is jumped to" firewall 'chain more { ip saddr 192.0.2.0/24 udp dport 4000-5000 reject; }
	chain input { type filter hook input priority 0; iifname "wan0" jump more; }'
check "firewall: one that lets it pass is not blamed" good_firewall
check "rp_filter" rp_filter_wan
check "control: the other edge is gone" other_edge_gone
check "link_failed: an operator has stopped it at the other edge" other_edge_stopped
check "path_asymmetric" one_way
check "path_down" line_cut
long check "path_mtu" narrow_line
check "ip_forward" forwarding_off
long check "stray_buffer" stray
check "memlock" swapped_out
check "enable_roce" roce_on
check "return_path" answers_go_around
check "request_path" requests_go_around
check "stalled" host_hangs
check "rnr_timer" slow_rnr_timer
check "retry_early" early_retry
server_with
LAB_MODE=host LAB_EXTRA=Link.Barrier=off relink
check "remote_route" no_remote_route
check "the daemon's answer by another way: nothing" answers . ""
check "buffer_full: nearly" answers '.links[0].buffer.from_lan |= (.used_bytes = (.capacity_bytes * 0.75 | floor))' buffer_full
check "buffer_full: stuck" answers '.links[0].buffer.from_wan.stuck = true' buffer_full
check "overrun" answers '.links[0].drops.lan_kernel = (now * 10 | floor)' overrun
relink
check "offloads" gro_on
long check "relay" relay_socket_gone
check "gpu" gpu_files_missing
relink
long check "distance" wrong_distance
long check "numa" other_node
check "huge_pages: none for a fast line" small_pages
long check "huge_pages: the pool is empty" no_huge_pages
check "buffer_memory" mount_too_small
relink
check "peer_name" wrong_name
relink
check "edges_differ" files_differ
relink
long check "rates_apart" rates_differ
check "certificate" old_keys
relink
check "clock" slow_clock
long check "clocks_apart, clock_set" clock_is_set
check "after all of it: nothing" says_nothing
check_end
