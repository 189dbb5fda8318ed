# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# edge.sh - longreachd at both edges: its config, start, stop; sourced by run.sh.
#
# Needs: topology.sh, $daemon (directory of longreachd and longreach), $rate (what the link may send), $workers
# (threads, as "A,B"), $engine (packet, dpdk or vhost); $arena_size, $barrier and $tuning (lines of [Tuning]) may be set.

# Lines of [Link]: the port's own engine, with a ring for the frames of PMTU 4096.
edge_engine() { # SITE
	case $engine in
	dpdk) printf 'Engine=dpdk\nLanDevice=net_af_packet0,iface=tap0,framesz=4288,blocksz=274432,framecnt=256\n' ;;
	vhost) printf 'Engine=dpdk\nLanDevice=net_vhost0,iface=%s\n' "$work/vhost-$1.sock" ;;
	esac
}

edge_config() { # SITE OWN OTHER MODE WORKERS
	cat <<-EOC
	[Link]
	LanPort=$lan_port
	$(edge_engine "$1")
	LocalPrefix=10.$2.0.0/24 fd0$2::/64
	RemotePrefix=10.$3.0.0/24 fd0$3::/64
	AckMode=$4${barrier:+
	Barrier=$barrier}
	Workers=$5
	FEC=off

	[Path]
	LocalAddress=10.9.0.$2
	RemoteAddress=10.9.0.$3
	Rate=$rate
	MTU=9000

	[Buffer]
	Directory=$arena/$1
	Size=${arena_size:-128MiB}
	MaxFlows=256

	[Security]
	Certificate=$work/keys/$1/link.crt
	Key=$work/keys/$1/link.key
	CA=$work/keys/$1/link.ca.crt
	PeerName=$([ "$1" = a ] && echo b || echo a).link

	[Tuning]
	EOC
	printf '%s\n' "${tuning:-}"
}

edge_start() { # SITE
	local plugin=()
	[ "$engine" = packet ] || plugin=(--plugins "$daemon/plugins" --eal '--no-huge -m 256')
	ip netns exec "$P-$1" "$daemon/longreachd" "${plugin[@]}" --control "$work/edge-$1.sock" \
		--config "$work/edge-$1.conf" ${pcap:+--pcap "$pcap/edge-$1"} \
		>>"$work/edge-$1.log" 2>&1 &
	echo $! >"$work/edge-$1.pid"
}

# edges_up MODE
edges_up() {
	local s
	[ -d "$work/keys" ] || "$daemon/longreach" keygen link --dir "$work/keys" >/dev/null || return 1
	for s in a b; do mkdir -p "$arena/$s" ${pcap:+"$pcap/edge-$s"}; done
	edge_config a 1 2 "$1" "${workers%,*}" >"$work/edge-a.conf"
	edge_config b 2 1 "$1" "${workers#*,}" >"$work/edge-b.conf"
	for s in a b; do
		echo "--- start, mode $1" >>"$work/edge-$s.log"
		edge_start $s
	done
	edges_wait && { [ "$engine" != vhost ] || guests_plugged; }
}

# Waits until the guests' lan0 has its carrier: QEMU looks once a second for a port that was made anew.
guests_plugged() {
	local s
	for s in a b; do
		[ ! -f "$work/$s.pid" ] || "$vm_build/vmrun" -n "$P-$s" -t 100 \
			'for i in $(seq 2000); do grep -q 1 /sys/class/net/lan0/carrier && exit 0; usleep 30000; done; exit 1' || return
	done
}

edge_status() { "$daemon/longreach" --control "$work/edge-$1.sock" status "${@:2}"; }

# Waits until both edges report the link as up; the limit of a minute only ends a hang.
edges_wait() {
	local i s up
	for i in $(seq 600); do
		up=0
		for s in a b; do
			edges_alive || return 1
			edge_status $s --json 2>/dev/null | grep -q '"state": *"up"' && up=$((up + 1))
		done
		[ $up = 2 ] && return 0
		sleep 0.1
	done
	echo "the edges do not see each other:" >&2
	tail -n 5 "$work"/edge-?.log >&2
	return 1
}

edges_alive() {
	local s
	for s in a b; do
		[ -f "$work/edge-$s.pid" ] || return 1
		kill -0 "$(cat "$work/edge-$s.pid")" 2>/dev/null || {
			echo "longreachd at edge $s is gone:" >&2
			tail -n 15 "$work/edge-$s.log" >&2
			return 1
		}
		# Its parent starts another one, so traffic hardly shows it.
		! grep -E 'ended by signal (4|6|7|8|11|31) ' "$work/edge-$s.log" >&2 || return 1
	done
}

edges_down() {
	local s rc=0
	for s in a b; do
		[ -f "$work/edge-$s.pid" ] || continue
		edge_status $s --json >"$work/status-$s.json" 2>/dev/null
		stop_pid "$work/edge-$s.pid" 50 || rc=1
		rm -rf "${arena:?}/$s"
		# RoCE stays closed while a link file exists. The file is gone now: open RoCE again.
		mkdir -p "$work/no-links"
		in_ns $s "$daemon/longreachd" --close --config-dir "$work/no-links" >>"$work/close.log" 2>&1
	done
	return $rc
}
