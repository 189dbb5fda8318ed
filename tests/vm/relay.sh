# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# relay.sh - RDMA clients of the relay, with the edges inside guests, because the edge that they connect to needs an RDMA
# device of its own; sourced by run.sh.
#
#   guest c                     guest ea                                      guest eb
#  +----------+   bridge P-c   +----------------------+    wanline P-w      +----------------------+
#  | lan0     |-- tc ---- ta --| lan0            wan0 |-- wa --------- wb --| wan0            lan0 |-- tb
#  | 10.1.0.2 |                | 10.1.0.1    10.9.0.1 |                     | 10.9.0.2    10.2.0.1 |
#  | rxe0     |                | rxe0, longreachd     |                     | longreachd           |
#  +----------+                +----------------------+                     +----------------------+
#
# Each guest has a namespace: its TAPs are in the namespace of its QEMU, and veths lead to the bridge and to the emulator. Needs: topology.sh, guest.sh, $daemon, $tools, $vm_build.

relay_port=4792

# An initramfs behind the guests' own, with longreachd and what it is linked with.
relay_initrd() {
	local root=$work/overlay f lib
	mkdir -p "$root/usr/sbin" "$root/usr/bin" "$root/etc"
	cp "$daemon/longreachd" "$root/usr/sbin/"
	cp "$daemon/longreach" "$root/usr/bin/"
	cp "$(command -v nft)" "$root/usr/sbin/"
	gcc -std=gnu17 -O2 -I"$top" -o "$root/usr/bin/wrongkey" "$here/wrongkey/wrongkey.c" "$top"/lib/lr_*.c || return
	for f in "$daemon/longreachd" "$daemon/longreach" "$(command -v nft)"; do
		ldd "$f" | awk '{ for (i = 1; i <= NF; i++) if ($i ~ /^\//) print $i }'
	done | sort -u | while read -r lib; do
		mkdir -p "$root$(dirname "$lib")"
		cp -L "$lib" "$root$lib"
	done
	# Opened by name at run time. librxe is in the guests' own.
	for lib in libibverbs.so.1 librdmacm.so.1; do
		f=$(ldconfig -p | awk -v l="$lib" '$1 == l && /x86-64/ { print $NF; exit }')
		mkdir -p "$root$(dirname "$f")"
		cp -L "$f" "$root$f"
	done
	printf 'root:x:0:0:root:/:/bin/sh\nlongreach:x:990:990::/:/bin/false\n' >"$root/etc/passwd"
	printf 'root:x:0:\nlongreach:x:990:\n' >"$root/etc/group"
	strip "$root/usr/sbin/longreachd" "$root/usr/bin/longreach" 2>/dev/null
	cp "$vm_build/initrd" "$work/initrd"
	(cd "$root" && find . | cpio -o -H newc --quiet) >>"$work/initrd"
	rm -rf "$root"
}

# relay_cable NS IF TAP: a TAP for a guest in P-NS, joined with the veth IF of P-w.
relay_cable() {
	ip link add "v$3" netns "$P-$1" mtu 9000 type veth peer name "$2" netns "$P-w" mtu 9000
	ip -n "$P-$1" tuntap add "$3" mode tap
	ip -n "$P-$1" link add "b$3" mtu 9000 type bridge forward_delay 0 mcast_snooping 0
	in_ns "$1" sysctl -qw "net.ipv6.conf.v$3.disable_ipv6=1" "net.ipv6.conf.$3.disable_ipv6=1" "net.ipv6.conf.b$3.disable_ipv6=1"
	in_ns w sysctl -qw "net.ipv6.conf.$2.disable_ipv6=1"
	in_ns "$1" ethtool -K "v$3" tx off tso off gso off gro off >/dev/null 2>&1
	in_ns w ethtool -K "$2" tx off tso off gso off gro off >/dev/null 2>&1
	for i in "$3" "v$3"; do
		ip -n "$P-$1" link set "$i" mtu 9000 master "b$3" up
	done
	ip -n "$P-$1" link set "b$3" mtu 9000 up
	ip -n "$P-w" link set "$2" up
}

relay_topo_up() {
	local s
	for s in c ea eb w; do
		ip netns add "$P-$s"
		ip -n "$P-$s" link set lo up
	done
	ip -n "$P-w" link add lan mtu 9000 type bridge forward_delay 0 mcast_snooping 0
	ip -n "$P-w" link set lan up
	relay_cable c lc tap0
	relay_cable ea la tap0
	relay_cable eb lb tap0
	ip -n "$P-w" link set lc master lan
	ip -n "$P-w" link set la master lan
	relay_cable ea wa tap1
	relay_cable eb wb tap1
}

# A GiB in files, in memory: of guest c twice.
relay_guests_up() {
	local guest_initrd=$work/initrd mem_c=1024 mem_b=1024
	case " $relay_sets " in *" gib "*) mem_c=4096 mem_b=2560 ;; esac
	guest_mem=$mem_c guest_start c "$P-c" tap0 52:54:00:0c:00 10.1.0.2/24 10.1.0.1 fd01::2/64 fd01::1
	guest_wan=tap1 guest_more_kargs=lr.wan=10.9.0.1/24 guest_start ea "$P-ea" tap0 52:54:00:0a:00 10.1.0.1/24 "" "" ""
	guest_mem=$mem_b guest_wan=tap1 guest_more_kargs=lr.wan=10.9.0.2/24 \
		guest_start eb "$P-eb" tap0 52:54:00:0b:00 10.2.0.1/24 "" "" ""
	guest_wait c "$P-c" 180 && guest_wait ea "$P-ea" 180 && guest_wait eb "$P-eb" 180
}

on() { "$vm_build/vmrun" -n "$P-$1" "${@:2}"; }

relay_config() { # OWN OTHER
	cat <<-EOC
	[Link]
	LanPort=lan0
	LocalPrefix=10.$1.0.0/24
	RemotePrefix=10.$2.0.0/24
	AckMode=near
	FEC=off
	[Path]
	LocalAddress=10.9.0.$1
	RemoteAddress=10.9.0.$2
	Rate=$rate
	MTU=9000
	[Buffer]
	Directory=/run/arena
	Size=64MiB
	MaxFlows=256
	[Security]
	Encryption=none
	[Relay]
	Enable=yes
	EOC
	[ "$1" = 2 ] || printf '%s\n' RelayListen=10.1.0.1 "RelayAllow=10.1.0.2/32=all:t* 10.1.0.2/32=export:m*"
}

relay_edge_start() { # ea|eb
	on "$1" -t 60 "mkdir -p /run/arena /run/longreach /dev/net; chown longreach /run/arena /run/longreach
		modprobe -a crc32c_generic nf_tables nft_ct nft_limit tun veth
		chmod 755 / /usr /usr/sbin /usr/bin /run /etc
		was=\$(cat /run/log 2>/dev/null | wc -l)
		setsid longreachd --user longreach --control /run/longreach/control --config /run/link.conf </dev/null >>/run/log 2>&1 &
		for i in \$(seq 100); do [ \$(cat /run/log | wc -l) -gt \$was ] && break; usleep 100000; done" # the agent ends what has no session yet
}

relay_edge_kill() { # ea|eb
	on "$1" -t 30 'kill -9 $(pidof longreachd); while pidof longreachd >/dev/null; do usleep 50000; done'
}

# Until the link is up at edge ea; with RDMA clients: until it listens to them as well.
relay_link_up() {
	local i
	for i in $(seq 60); do
		on ea "longreach --control /run/longreach/control status --json 2>/dev/null | grep -q '\"state\": *\"up\"'" && return
		sleep 0.5
	done
	return 1
}

relay_edges_up() {
	on ea "cat >/run/link.conf <<'END'
$(relay_config 1 2)
END"
	on eb "cat >/run/link.conf <<'END'
$(relay_config 2 1)
END"
	relay_edge_start ea
	relay_edge_start eb
	relay_link_up && return
	echo "the edges do not see each other:" >&2
	on ea "tail -n 15 /run/log; ls -l /run /run/longreach /run/arena; ps | tail -n 5; ip a; ip r" >&2
	on eb "tail -n 15 /run/log" >&2
	return 1
}

suite_relay() {
	relay_initrd
	relay_topo_up || die "no topology"
	line_up || die "no line"
	line_set "${km:-300}" 0 0 0
	note "booting three guests"
	relay_guests_up || die "no guests"
	note "guests are up"
	relay_edges_up || die "no edges"
	note "edges are up"
	relay_checks
	relay_down
}
relay_down() {
	local s
	stop_pid "$work/line.pid"
	for s in c ea eb; do guest_stop $s; done
	for s in c ea eb w; do ip netns del "$P-$s" 2>/dev/null; done
}

# --- checks ---

# MiB per transfer: 16, and 1024 in the set gib, unless RELAY_MIB= is set.
relay_mib() { case " $relay_sets " in *" gib "*) echo "${RELAY_MIB:-1024}" ;; *) echo "${RELAY_MIB:-16}" ;; esac; }

# relay_check NAME TEXT GUEST COMMAND: ends within a minute, and says TEXT.
relay_check() {
	local out rc start
	wanted "$1" || return
	start=$(date +%s%N)
	out=$(on "$3" -t 500 "$4" 2>&1)
	rc=$?
	if printf '%s\n' "$out" | grep -q -e "$2"; then
		ok "$1" "$(printf '%s' "$out" | tail -n 1) ($((($(date +%s%N) - start) / 1000000)) ms)"
	else
		bad "$1" "exit $rc: $(printf '%s' "$out" | tail -n 3)"
		on ea "tail -n 4 /run/log"
	fi
}

relay_put="longreach put --socket rdma:10.1.0.1"
relay_get="longreach get --socket rdma:10.1.0.1"

# Number of queue pairs of ea's daemon: a client that has gone leaves none.
relay_qps() { on ea "rdma res show qp | grep -c longreachd"; }

relay_none_left() { # NAME
	local i n
	wanted "$1" || return
	for i in $(seq 20); do
		n=$(relay_qps)
		[ "$n" = 0 ] && ok "$1" "no queue pair is left" && return
		sleep 1
	done
	bad "$1" "$n queue pairs are left"
}

# The region at edge eb, a file of BYTES. It comes back as soon as a killed daemon has restarted.
relay_export() { # BYTES
	on eb "truncate -s $1 /run/target
		(setsid sh -c 'for i in \$(seq 300); do longreach export link:target --file /run/target --access rw && break; usleep 100000; done' \
			>>/run/notices 2>>/run/export.log &)
		for i in \$(seq 100); do longreach regions link 2>/dev/null | grep -q target && break; usleep 100000; done"
}

relay_source() { # BYTES: in guest c, with its digest in $relay_md5.
	on c -t 300 "head -c $1 /dev/urandom >/tmp/src"
	relay_md5=$(on c -t 300 'md5sum </tmp/src')
}

relay_checks() {
	local set
	mode=relay
	relay_bytes=$(($(relay_mib) << 20))
	on c 'mount -o remount,size=90% /tmp'
	on eb 'mount -o remount,size=90% /run'
	relay_source $relay_bytes
	relay_export $relay_bytes
	for set in $relay_sets; do
		note "checks: $set"
		"relay_$set"
	done
}

relay_basic() {
	relay_check as-its-own-user 'longreac' ea "ps | grep longreachd | grep -v grep"
	relay_put_and_get
	relay_check put-notice "target+0 $relay_bytes whole" eb "sleep 1; cat /run/notices"
	relay_check no-relay-here 'no relay here' c "longreach put /tmp/src link:target"
	relay_check edge-of-the-site 'Gbit/s' c "echo 'link 10.1.0.1' >/tmp/edges; LONGREACH_EDGES=/tmp/edges longreach put /tmp/src link:target --promise done"
	relay_none_left after-clients
}

relay_put_and_get() {
	relay_check put 'Gbit/s' c "$relay_put /tmp/src link:target --promise done --notice whole"
	relay_check put-arrived "$relay_md5" eb "md5sum </run/target"
	relay_check get 'Gbit/s' c "rm -f /tmp/back; $relay_get link:target /tmp/back --length $relay_bytes"
	relay_check get-arrived "$relay_md5" c "md5sum </tmp/back; rm -f /tmp/back"
	relay_check no-byte-is-copied-by-a-processor '^copied 0, read [1-9][0-9]*, written [1-9][0-9]*$' ea "$(relay_counted)"
}

# Counters of edge ea.
relay_counted() {
	local c="longreach --control /run/longreach/control status --json | tr ',{' '\n\n' | sed -n"
	count() { echo "\$($c 's/.*\"relay_$1\": *\([0-9]*\).*/\1/p')"; }
	echo "echo copied $(count copied_bytes), read $(count rdma_read_bytes), written $(count rdma_written_bytes)"
}

# A GiB each way; no processor copies bytes at the client's edge.
relay_gib() {
	relay_put_and_get
	relay_none_left after-a-gib
}

# Memory of the client as a region: programs beside edge eb put into it and get from it.
relay_regions() {
	local mine="longreach export --socket rdma:10.1.0.1"
	relay_check export-not-allowed 'not allowed' c "$mine link:tmine --shm 1M"
	on c "truncate -s $relay_bytes /tmp/mine
		setsid $mine link:mine --file /tmp/mine --access rw </dev/null >/run/notices 2>/run/export.log & echo \$! >/run/export.pid
		for i in \$(seq 100); do grep -q exporting /run/export.log && break; usleep 100000; done"
	on eb -t 300 "head -c $relay_bytes /dev/urandom >/run/src"
	relay_md5=$(on eb -t 300 'md5sum </run/src')
	relay_check put-into-a-client 'Gbit/s' eb "longreach put /run/src link:mine --promise done --notice whole"
	relay_check put-into-a-client-arrived "$relay_md5" c 'md5sum </tmp/mine'
	relay_check put-into-a-client-notice "mine+0 $relay_bytes whole" c 'sleep 1; cat /run/notices'
	relay_check get-from-a-client 'Gbit/s' eb "rm -f /run/back; longreach get link:mine /run/back"
	relay_check get-from-a-client-arrived "$relay_md5" eb 'md5sum </run/back; rm -f /run/back'
	relay_check no-byte-is-copied-for-a-region '^copied 0, read [1-9][0-9]*, written [1-9][0-9]*$' ea "$(relay_counted)"
	(sleep 0.5 && on c 'kill -9 $(cat /run/export.pid)') &
	relay_check region-gone-with-its-client 'no such region' eb "for i in \$(seq 30); do longreach put /run/src link:mine --promise done || break; done 2>&1"
	wait $!
	relay_check put-into-nothing 'no such region' eb "longreach put /run/src link:mine --promise done"
	on eb 'rm -f /run/src'
	on c 'rm -f /tmp/mine'
	relay_none_left after-regions
	relay_md5=$(on c -t 300 'md5sum </tmp/src')
}

relay_errors() {
	relay_check region-not-allowed 'Permission denied' c "$relay_put /tmp/src link:other"
	relay_check no-such-region 'no such region' c "$relay_put /tmp/src link:tother --promise done"
	relay_check out-of-bounds 'beyond the end' c "$relay_put /tmp/src link:target+1 --promise done"
	relay_check host-not-allowed 'not allowed' ea "$relay_put /run/link.conf link:target"
	relay_check nobody-listens 'no relay here' c "longreach put --socket rdma:10.1.0.1:4999 /tmp/src link:target"
	relay_check wrong-key-put 'cannot be reached by RDMA' c "wrongkey 10.1.0.1 put target"
	relay_check wrong-key-get 'cannot be reached by RDMA' c "wrongkey 10.1.0.1 get target"
	relay_check wrong-key-is-logged 'do not allow access to its memory' ea "tail -n 3 /run/log"
	relay_none_left after-wrong-keys
	relay_check killed-client 'killed' c "$relay_put /tmp/src link:target --promise done & sleep 0.7; kill -9 \$! && wait \$!; echo killed"
	relay_none_left after-killed-client
	relay_check put-again 'Gbit/s' c "$relay_put /tmp/src link:target --promise done"
}

# Waits up to SECONDS until the file at edge eb has the digest DIGEST.
relay_awaits() { # NAME DIGEST SECONDS
	local i got
	wanted "$1" || return
	for i in $(seq "$3"); do
		got=$(on eb -t 60 "md5sum </run/target")
		[ "$got" = "$2" ] && ok "$1" "after $i looks" && return
		sleep 1
	done
	bad "$1" "$got is not $2"
}

# kill -9 of either daemon. The line is cut, so that a completed put in mode near is only in edge ea's buffer when ea is killed.
relay_kill() {
	local before after
	relay_source $relay_bytes
	relay_check put-before-kills 'Gbit/s' c "$relay_put /tmp/src link:target --promise done"
	relay_awaits put-before-kills-arrived "$relay_md5" 3
	before=$relay_md5
	line_ctl cut
	relay_check put-near-on-a-cut-line 'Gbit/s' c "head -c 1048576 /dev/urandom >/tmp/new; $relay_put /tmp/new link:target --promise near"
	after=$(on c "dd if=/tmp/src bs=1M skip=1 2>/dev/null | cat /tmp/new - | md5sum")
	relay_edge_kill ea
	relay_awaits put-near-is-not-there-yet "$before" 1
	relay_edge_start ea
	line_ctl uncut
	relay_link_up || bad link-is-back "$(on ea 'tail -n 3 /run/log')"
	relay_awaits put-near-survives-kill "$after" 30
	relay_wait_listening

	(sleep 0.7 && relay_edge_kill ea) &
	relay_check kill-near-edge-in-a-put 'RDMA connection has ended' c "$relay_put /tmp/src link:target --promise done; echo \$?"
	wait $!
	relay_edge_start ea
	relay_link_up || bad link-is-back "$(on ea 'tail -n 3 /run/log')"
	relay_wait_listening
	relay_check put-after-kill 'Gbit/s' c "$relay_put /tmp/src link:target --promise done"
	relay_awaits put-after-kill-arrived "$relay_md5" 3

	# the far one, and with it the region's program: both come back, and the put goes on
	relay_source $relay_bytes
	(sleep 0.7 && relay_edge_kill eb && relay_edge_start eb) &
	relay_check kill-far-edge-in-a-put 'Gbit/s' c "$relay_put /tmp/src link:target --promise done"
	wait $!
	relay_awaits kill-far-edge-arrived "$relay_md5" 3
	(sleep 0.3 && on eb 'kill $(pidof longreach)') & # in a busy guest this takes its time
	relay_check provider-gone 'no such region' c "$relay_put /tmp/src link:target --promise done"
	wait $!
	relay_export $relay_bytes
	relay_none_left after-kills
}

relay_wait_listening() {
	local i
	for i in $(seq 20); do
		on c "$relay_put /tmp/src link:nothere 2>&1 | grep -q 'Permission denied'" && return
		sleep 0.5
	done
}

# A client's queue pair has nothing to send while its put waits for the other edge: with the line cut for longer than two probes
# need, it goes on; with the edge cut off from the LAN, it ends. rxe itself would retry for ever.
relay_silence() {
	local put="timeout 90 $relay_put /tmp/src link:target --promise done"
	line_ctl cut
	(sleep 30 && line_ctl uncut) &
	relay_check put-over-a-silence 'Gbit/s' c "$put"
	wait $!
	line_ctl cut
	(sleep 3 && ip -n "$P-w" link set la down) &
	relay_check silent-edge-ends-the-put 'RDMA connection has ended' c "$put 2>&1"
	wait $!
	ip -n "$P-w" link set la up
	line_ctl uncut
	relay_link_up || bad link-is-back "$(on ea 'tail -n 3 /run/log')"
	relay_wait_listening
	relay_none_left after-silence
}

# rxe's device is removed when its last user has closed it, and librdmacm keeps it open: here the device does not come back.
relay_device() {
	(sleep 1 && timeout 20 "$vm_build/vmrun" -n "$P-ea" -t 5 "rdma link delete rxe0") >/dev/null 2>&1 & # it may hang
	relay_check device-gone 'RDMA' c "$relay_put /tmp/src link:target --promise done"
	wait $!
	relay_check device-gone-is-logged 'device of RelayListen= has gone' ea "tail -n 5 /run/log"
	relay_check daemon-lives 'longreac' ea "ps | grep longreachd | grep -v grep"
}
