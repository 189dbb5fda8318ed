#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - two guests with the kernel's own RDMA, an edge in front of each, a long line in between.
#
# topology.sh has the drawing. The RDMA programs in the guests do not know of the edges. Prints a line per check and ends with
# "N passed, N failed".
set -u

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)

usage() {
	cat <<-EOT
	usage: run.sh [what] [options]
	what:
	  --quick         the most telling programs in both modes, under 4 minutes (default)
	  --full          all programs in both modes with loss, reordering and duplication; and --lives, --lan, --issue3
	  --accept        the figures: directly against longreach, medians of 3; a cut line
	  --dead          hosts that die while the buffers are full of their bytes, others must not wait for GiveUp=
	  --lives         programs that are restarted with the same QPNs, PSNs and contents, directly and in both modes
	  --lan           LANs that lose 1 % and reorder 1 %, directly and in both modes
	  --issue3        all of the following
	  --nvme          a disk over NVMe/RDMA, with loss
	  --rkey          what a responder refuses or cannot hear ends in an error, requester busy and idle
	  --part          rdma_disconnect right after the last completion
	  --barrier       WRITEs complete, TCP says so, every byte must be there (TELLINGS= in the environment: 1000)
	  --reads         READ directly and in mode near, with the line's rate as the limit and without, medians of 3
	  --atomics       exactly once, with loss and duplication on the line and on the LANs
	  --explain       queue pairs broken in a dozen ways: longreach explain must name each cause (jq)
	  --packets       mixed traffic sends no more packets than without early ACKs
	  --relay         clients put and get by RDMA, edges inside guests: a topology of its own (relay.sh)
	                  --sets "basic errors kill silence device": these sets of checks alone; gib, some minutes, only if named
	  --one CMD       client CMD in guest a; --server CMD in guest b before it (PEER stands for guest b's address)
	                  --repeat N: again and again with fresh edges, until it fails or an edge's log matches --until REGEX
	  --shell         bring it all up and start a shell (vmrun -n \$P-a ...)
	options:
	  --direct        without longreachd
	  --mode near|host  only this mode
	  --km N --loss 1% --reorder 1%,200us --dup 0.5%   the line (as wanline takes it)
	  --rate 2G       what longreachd may send
	  --workers N,M   threads of the edges (1,1)
	  --engine E      of the edges' LAN ports: packet (default); dpdk: net_af_packet devices; vhost: the guests' NICs are
	                  vhost-user ports of longreachd, without direct runs
	  --build DIR     where longreachd, longreach and tools/ are (build/gcc)
	  --only REGEX    only the checks whose name matches
	  --stop          stop at the first failure
	  --tuning TEXT   lines for [Tuning] of the edges' configuration
	  --pcap DIR      capture tap0 and wan0 of both edges
	  --logs DIR      keep outputs and logs (default: shown in part when a check fails)
	EOT
	exit "${1:-2}"
}

what=quick modes="" km="" loss="" reorder="" dup="" rate=2G workers=1,1
build=$top/build/gcc pcap="" logs="" only=. stop="" tuning="" engine=packet
relay_sets="basic regions errors kill silence device"
one="" server="" repeat=1 until_said='^$.'
while [ $# -gt 0 ]; do
	case $1 in
	--quick | --full | --accept | --dead | --lives | --lan | --issue3 | --nvme | --rkey | --part | --barrier | --reads | \
		--atomics | --explain | --packets | --relay | --shell) what=${1#--} ;;
	--one) what=one one=$2 && shift ;;
	--server) server=$2 && shift ;;
	--repeat) repeat=$2 && shift ;;
	--sets) relay_sets=$2 && shift ;;
	--until) until_said=$2 && shift ;;
	--direct) modes=direct ;;
	--mode) modes=$2 && shift ;;
	--km) km=$2 && shift ;;
	--loss) loss=$2 && shift ;;
	--reorder) reorder=$2 && shift ;;
	--dup) dup=$2 && shift ;;
	--rate) rate=$2 && shift ;;
	--workers) workers=$2 && shift ;;
	--build) build=$2 && shift ;;
	--engine) engine=$2 && shift ;;
	--stop) stop=1 ;;
	--tuning) tuning=$2 && shift ;;
	--only) only=$2 && shift ;;
	--pcap) pcap=$2 && shift ;;
	--logs) logs=$2 && shift ;;
	--help | -h) usage 0 ;;
	*) usage ;;
	esac
	shift
done

case $engine:$what:$modes in
packet:* | dpdk:*) ;;
vhost:*:*direct* | vhost:accept:* | vhost:reads:* | vhost:explain:* | vhost:relay:*)
	echo "run.sh: not with --engine vhost: nothing runs directly, and guests have no other addresses there" >&2
	exit 2
	;;
vhost:*) modes=${modes:-near host} ;;
*) usage ;;
esac

P=lrvm$$
work=$(mktemp -d "/tmp/$P.XXXXXX")
arena=/dev/shm/$P
daemon=$build
tools=$build/tools
port=20000
passed=0 failed=0
mode=direct line_km=0
start_s=$(date +%s)
limit_s=3000 # only ends a hang
table=$work/table
: >"$table"

# shellcheck source=guest.sh
. "$here/guest.sh"
# shellcheck source=topology.sh
. "$here/topology.sh"
# shellcheck source=edge.sh
. "$here/edge.sh"
# shellcheck source=pair.sh
. "$here/pair.sh"
# shellcheck source=programs.sh
. "$here/programs.sh"
# shellcheck source=figures.sh
. "$here/figures.sh"
# shellcheck source=nvme.sh
. "$here/nvme.sh"
# shellcheck source=promise.sh
. "$here/promise.sh"
# shellcheck source=operations.sh
. "$here/operations.sh"
# shellcheck source=lan.sh
. "$here/lan.sh"
# shellcheck source=lives.sh
. "$here/lives.sh"
# shellcheck source=explain.sh
. "$here/explain.sh"
# shellcheck source=relay.sh
. "$here/relay.sh"

cleanup() {
	trap '' INT TERM HUP
	topo_down
	[ "$what" != relay ] || relay_down
	# shellcheck disable=SC2046
	kill $(jobs -p) 2>/dev/null
	if [ -n "$logs" ]; then
		mkdir -p "$logs" && cp -r "$work/." "$logs/"
	fi
	rm -rf "$work" "$arena"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

elapsed() { echo $(($(date +%s) - start_s)); }
note() { printf '[%4ds] %s\n' "$(elapsed)" "$*"; }
ok() { passed=$((passed + 1)) && printf '[%4ds] ok    %-9s %-34s %s\n' "$(elapsed)" "$mode" "$1" "${2:-}"; }
bad() { failed=$((failed + 1)) && printf '[%4ds] FAIL  %-9s %-34s %s\n' "$(elapsed)" "$mode" "$1" "${2:-}"; }
die() { echo "run.sh: $*" >&2 && exit 1; }

on_a() { "$vm_build/vmrun" -n "$P-a" "$@"; }
on_b() { "$vm_build/vmrun" -n "$P-b" "$@"; }

# use direct|near|host
use() {
	edges_down || note "an edge had to be killed"
	mode=$1
	[ "$1" = direct ] && return
	edges_up "$1" || die "no longreachd in mode $1"
}

# --- the suites ---

impair() {
	line_loss=${loss:-$2} line_reorder=${reorder:-$3} line_dup=${dup:-$4}
	line_set "${km:-$1}" "$line_loss" "$line_reorder" "$line_dup"
	note "line: ${km:-$1} km, loss $line_loss, reordering $line_reorder, duplication $line_dup"
}

suite_quick() {
	local m
	impair 0 0 0 0
	[ "$engine" = vhost ] || use direct
	check_checker
	impair 300 1% 1%,300us 0.5%
	for m in ${modes:-near host}; do
		use "$m"
		check_rping
		run_perf ib_write_bw -s 65536 -n 200
		run_perf ib_send_bw -s 65536 -n 100 -q 2 -R
		run_perf ib_read_bw -s 65536 -n 50 -b
		run_perf ib_atomic_bw -n 200
		check_rc rccheck-q4-b -q 4 -b -n 32
		check_rc rccheck-R -q 2 -R -n 32
		check_rc rccheck-rnr --rnr -P send,imm,mix -n 48
		check_drill rkey-next refuse-next -q 2 -n 16 -s 16384
		check_drill disconnect part -R -q 8 -n 32 -d 32 -s 32768
		check_latency
		[ "$m" = near ] || continue
		check_nvme nvme 1 16 512
		check_near_is_early
		lan_trouble on
		check_rc lan -P send,write,imm -q 2 -n 24
		lan_over
		check_cut ""
	done
	perf_seconds=300
	[ "$engine" = vhost ] || compare ib_write_bw -m 1024 -s 65536 -n 80
}

suite_full() {
	local m prog cm q b
	impair 300 1% 1%,300us 0.5%
	for m in ${modes:-near host}; do
		use "$m"
		check_rping
		for prog in "ib_write_bw -s 65536 -n 200" "ib_send_bw -s 65536 -n 200" "ib_read_bw -s 65536 -n 60" \
			"ib_atomic_bw -n 200"; do
			for cm in "" -R; do
				for q in "" "-q 4"; do
					for b in "" -b; do
						# shellcheck disable=SC2086
						run_perf $prog $cm $q $b
					done
				done
			done
		done
		run_perf ib_write_bw -s 65536 -n 100 -m 1024
		run_perf ib_write_bw -s 4000 -n 400 -t 16
		check_rc rccheck
		check_rc rccheck-q8-b -q 8 -b -n 48
		check_rc rccheck-R-q4-b -q 4 -R -b
		check_rc rccheck-rnr-b --rnr -b -q 2 -P send,imm,mix
		check_rc rccheck-m1024 -m 1024 -q 2
		check_rc rccheck-big -s 1000000 -n 16 -d 4 -P send,write,read,mix
		check_rc rccheck-small -s 64 -n 1000 -d 64 -q 4
		peer=fd02::2 check_rc rccheck-ipv6 -q 2 -b
		check_latency
		[ "$m" = near ] && check_near_is_early
		check_killed
		check_cut ""
		[ "$m" = near ] && check_cut_full
	done
	suite_lives
	suite_lan
	suite_issue3
}

# Two rounds: the dead flows of the first round leave room, those of the second find the table full.
suite_dead() {
	local x="ib_write_bw -d rxe0 -x 1 -F -p PORT -s 65536 -n 4000 -q 4" i
	impair 300 1% 1%,300us 0.5%
	use near
	perf_seconds=20
	for i in 1 2; do
		pair "near-dead-$i" 10 "timeout -s KILL 2.5 $x" "timeout -s KILL 4 $x PEER"
		note "both hosts' programs killed; buffered at edge b: $(edge_status b | sed -n 's/.*buffer *//p')"
		check_perf "after-dead-$i" ib_write_bw -s 65536 -n 200 -q 2
	done
}

# A client with its server, or alone; leaves its exit status.
one_once() {
	if [ -z "$server" ]; then
		on_a -t 300 "$one"
		return
	fi
	pair one "${perf_seconds:-300}" "$server" "$one"
	one_rc=$?
	[ "$repeat" -gt 1 ] || tail -n 50 "$work/one.a" "$work/one.b"
	return $one_rc
}

# Captures and logs are those of the last round only.
suite_one() {
	local i
	impair 300 0 0 0
	for i in $(seq "$repeat"); do
		rm -f "$work"/edge-?.log
		use "${modes:-near}"
		one_once || { note "round $i failed: ${pair_detail:-}" && break; }
		[ "$mode" != direct ] && grep -hE "$until_said" "$work"/edge-?.log && note "in round $i" && break
		[ $((i % 10)) != 0 ] || note "$i rounds"
	done
	[ "$mode" = direct ] || { edge_status a && edge_status b; }
}

suite_issue3() {
	suite_rkey
	suite_part
	[ "$engine" = vhost ] || suite_reads
	suite_atomics
	suite_packets
	suite_barrier
	suite_nvme
}

suite_shell() {
	impair 300 0 0 0
	use "${modes:-near}"
	cd "$work" && P=$P PATH=$vm_build:$tools:$daemon:$PATH bash -i
}

[ "$(id -u)" = 0 ] || die "needs root for network namespaces"
vm_build=$("$here/build_guest.sh") || die "no guests"
[ -x "$tools/wanline" ] || die "$tools/wanline is not built (make tools, or --build DIR)"
[ "$modes" = direct ] || [ -x "$daemon/longreachd" ] || die "$daemon/longreachd is not built (make, or --build DIR)"

if [ "$what" = relay ]; then
	suite_relay
	echo "$passed passed, $failed failed"
	[ $failed = 0 ] && [ $passed -gt 0 ]
	exit
fi
topo_up || die "no topology"
line_up || die "no line"
[ -n "$pcap" ] && pcap_up "$pcap"
# QEMU waits for its port before it boots a guest.
[ "$engine" != vhost ] || use near
note "booting two guests"
guests_up || die "no guests"
note "guests are up"
"suite_$what"
line_ctl stats
use direct
print_table
grep -h "LOST BY THE EMULATOR" "$work/line.log"
note "done"
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
