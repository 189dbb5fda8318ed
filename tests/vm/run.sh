#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh - two guests with the kernel's own RDMA, an edge in front of each, a long line in between.
#
# What runs where is drawn in topology.sh. The RDMA programs in the guests know nothing of any of it. Prints a line per
# check and ends with "N passed, N failed".
set -u

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)

usage() {
	cat <<-EOT
	usage: run.sh [what] [options]
	what:
	  --quick         the most telling programs in both modes, under 4 minutes (default)
	  --full          all programs in both modes with loss, reordering and duplication
	  --accept        the figures: directly against longreach, medians of 3; a cut line
	  --dead          hosts that die while the buffers are full of their bytes, others must not wait for GiveUp=
	  --nvme          a disk over NVMe/RDMA, with loss
	  --one CMD       client CMD in guest a; --server CMD in guest b before it (PEER stands for guest b's address)
	                  --repeat N: again and again with fresh edges, until it fails or an edge's log matches --until REGEX
	  --shell         bring it all up and start a shell (vmrun -n \$P-a ...)
	options:
	  --direct        without longreachd
	  --mode near|host  only this mode
	  --km N --loss 1% --reorder 1%,200us --dup 0.5%   the line (as wanline takes it)
	  --rate 2G       what longreachd may send
	  --workers N,M   threads of the edges (1,1)
	  --build DIR     where longreachd, longreach and tools/ are (build/gcc)
	  --only REGEX    only the checks whose name matches
	  --stop          stop at the first failure
	  --tuning TEXT   lines for [Tuning] of the edges' configuration
	  --pcap DIR      capture tap0 and wan0 of both edges
	  --logs DIR      keep outputs and logs (default: shown in part when a check fails)
	EOT
	exit "${1:-2}"
}

what=quick modes="" km="" loss="" reorder="" dup="" rate=2G workers=1,1 build=$top/build/gcc pcap="" logs="" only=. stop="" tuning=""
one="" server="" repeat=1 until_said='^$.'
while [ $# -gt 0 ]; do
	case $1 in
	--quick | --full | --accept | --dead | --nvme | --shell) what=${1#--} ;;
	--one) what=one one=$2 && shift ;;
	--server) server=$2 && shift ;;
	--repeat) repeat=$2 && shift ;;
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

P=lrvm$$
work=$(mktemp -d "/tmp/$P.XXXXXX")
arena=/dev/shm/$P
daemon=$build
tools=$build/tools
port=20000
passed=0 failed=0
mode=direct line_km=0
start_s=$(date +%s)
case $what in quick) limit_s=230 ;; *) limit_s=3000 ;; esac
table=$work/table
: >"$table"

# shellcheck source=guest.sh
. "$here/guest.sh"
# shellcheck source=topology.sh
. "$here/topology.sh"
# shellcheck source=edge.sh
. "$here/edge.sh"
# shellcheck source=nvme.sh
. "$here/nvme.sh"

cleanup() {
	trap '' INT TERM HUP
	topo_down
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

# --- running a pair of programs ---

# server_wait PORT: until guest b listens there by TCP or rdma_cm.
server_wait() {
	on_b -t 10 "for i in \$(seq 200); do
		grep -qi ':$(printf %04X "$1") 0*:0000 0A' /proc/net/tcp /proc/net/tcp6 && exit 0
		rdma res show cm_id | grep -q 'state LISTEN' && exit 0
		usleep 30000; done; exit 1" >/dev/null
}

# pair NAME SECONDS SERVER CLIENT: both must end well. Output in $work/NAME.{a,b}; PORT and PEER stand for themselves.
pair() {
	local name=$1 t=$2 srv=$3 cli=$4 pid rc_a rc_b
	port=$((port + 1))
	srv=${srv//PORT/$port} cli=${cli//PORT/$port}
	cli=${cli//PEER/${peer:-$lan_addr_b}}
	echo "$srv" >"$work/$name.b.cmd"
	echo "$cli" >"$work/$name.a.cmd"
	on_b -t $((t + 5)) "$srv" >"$work/$name.b" 2>&1 &
	pid=$!
	server_wait $port || note "$name: server not seen listening"
	on_a -t "$t" "$cli" >"$work/$name.a" 2>&1
	rc_a=$?
	if [ $rc_a != 0 ]; then
		sleep 1 # it may be ending by itself
		kill $pid 2>/dev/null
	fi
	wait $pid
	rc_b=$?
	pair_detail="exit $rc_a/$rc_b"
	[ $rc_a = 0 ] && [ $rc_b = 0 ]
}

# Both guests' and edges' view of a check that failed, for --logs.
keep_status() {
	local s
	for s in a b; do
		"$vm_build/vmrun" -n "$P-$s" -t 10 "ping -c 2 -W 1 10.1.0.1; ping -c 2 -W 1 10.2.0.1; arp -an
			ip -s link show lan0; cat /proc/net/snmp /proc/interrupts; dmesg | tail -n 20; ps
			rdma resource show qp; cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . *" \
			>"$work/$1.guest-$s" 2>&1
		in_ns $s ip -s neigh >"$work/$1.neigh-$s" 2>&1
		in_ns $s ip -s link >>"$work/$1.neigh-$s" 2>&1
	done
	[ "$mode" = direct ] && return
	for s in a b; do
		edge_status $s --flows --json >"$work/$1.status-$s.json" 2>/dev/null
	done
}

# What to see of a check that failed.
show() {
	local s
	for s in a b; do
		echo "    --- guest $s: $(cat "$work/$1.$s.cmd")"
		tail -n 8 "$work/$1.$s" | sed 's/^/    | /'
	done
	[ "$mode" = direct ] && return
	for s in a b; do
		echo "    --- edge $s"
		tail -n 4 "$work/edge-$s.log" | sed 's/^/    | /'
	done
}

wanted() {
	[[ $1 =~ $only ]] || return 1
	[ "$(elapsed)" -lt $limit_s ] && return 0
	bad "$1" "not run: out of time ($limit_s s)"
	return 1
}

# finish NAME RESULT DETAIL
finish() {
	local result=$2
	line_alive || die "no line, nothing can be said"
	if [ "$mode" != direct ] && ! edges_alive; then
		result=1
		bad "$1" "longreachd died"
		use "$mode"
		return 1
	fi
	if [ "$result" = 0 ]; then
		ok "$1" "$3"
		return 0
	fi
	bad "$1" "$3"
	keep_status "$mode-$1"
	show "$mode-$1"
	[ -z "$stop" ] || die "stopping at the first failure"
	return "$result"
}

# use direct|near|host
use() {
	edges_down || note "an edge had to be killed"
	mode=$1
	[ "$1" = direct ] && return
	edges_up "$1" || die "no longreachd in mode $1"
}

# --- the programs ---

check_rping() {
	local n=$mode-rping
	wanted rping || return
	pair $n 60 "rping -s -C 20 -V -S 1000 -a 0.0.0.0 -p PORT" "rping -c -C 20 -V -S 1000 -a PEER -p PORT"
	finish rping $? "$pair_detail"
}

# perf NAME PROGRAM ARGS...: leaves Gbit/s in $gbps.
perf() {
	local name=$1 prog=$2 rc
	shift 2
	gbps=0
	pair "$mode-$name" "${perf_seconds:-60}" "$prog -d rxe0 -x ${gid_index:-1} -F --report_gbits -p PORT $*" \
		"$prog -d rxe0 -x ${gid_index:-1} -F --report_gbits -p PORT $* PEER"
	rc=$?
	gbps=$(awk '$1 ~ /^[0-9]+$/ && NF >= 5 && $4 ~ /^[0-9.]+$/ { g = $4 } END { print g + 0 }' "$work/$mode-$name.a")
	return $rc
}

check_perf() { # NAME PROGRAM ARGS...
	local name=$1
	wanted "$name" || return
	perf "$@"
	finish "$name" $? "$gbps Gbit/s"
	echo "$mode $name $gbps" >>"$table"
}

# check_rc NAME ARGS...: the checker, as strict as the mode allows.
check_rc() {
	local name=$1 early="" rc
	wanted "$name" || return
	shift
	[ "$mode" = near ] && early=--early-acks
	pair "$mode-$name" "${rc_seconds:-120}" "rccheck -S -p PORT --timeout ${rc_seconds:-120}" \
		"rccheck -p PORT --timeout ${rc_seconds:-120} $early $* PEER"
	rc=$?
	grep -q '"verdict":"pass"' "$work/$mode-$name.a" || rc=1
	finish "$name" $rc "$(sed -n 's/.*"wrong":\([0-9]*\).*/\1 wrong/p' "$work/$mode-$name.a" | tail -n 1)"
}

# lat_of NAME WHICH: min, median or max of phase lat in us.
lat_of() { sed -n "s/.*\"name\":\"lat\".*\"lat_$2_us\":\([0-9]*\).*/\1/p" "$work/$1.a" | tail -n 1; }

# In mode host nothing may complete before the responder can have answered; in near the distance must not show.
check_latency() {
	local far=1000 rtt_us=10000 near_us far_us old=$line_km
	wanted latency || return
	line_set $far 0 0 0
	if [ "$mode" = near ]; then
		check_rc latency-far -P lat -n 100 --lat-max $((rtt_us / 2)) && far_us=$(lat_of near-latency-far median)
		line_set 0 0 0 0
		check_rc latency-at-0-km -P lat -n 100 && near_us=$(lat_of near-latency-at-0-km median)
		note "median completion at 0 km ${near_us:-?} us, at $far km ${far_us:-?} us"
	else
		check_rc latency-far --lat-min $rtt_us -q 2 -n 40
		note "soonest completion at $far km: $(lat_of "$mode-latency-far" min) us, round trip $rtt_us us"
	fi
	line_set "$old" "$line_loss" "$line_reorder" "$line_dup"
}

# The checker must be able to say no.
check_checker() {
	local what expect
	wanted checker || return
	for what in byte order atomic late; do
		case $what in
		late) expect='was written again' ;;
		atomic) expect='FETCH_ADD' ;;
		*) expect='byte .* wrong' ;;
		esac
		pair "$mode-checker" 30 "rccheck -S -p PORT --timeout 30" \
			"rccheck -p PORT --timeout 30 -n 16 -s 8192 --break $what PEER"
		if grep -q "WRONG.*$expect" "$work/$mode-checker.a" "$work/$mode-checker.b"; then
			ok "rccheck finds a wrong $what"
		else
			bad "rccheck finds a wrong $what"
			show "$mode-checker"
		fi
	done
}

# A cut line under load: WRITEs go on for some seconds, the line is cut for ten, everything must come right.
check_cut() { # NAME ARGS...
	local name=cut-10-s${1:+-$1} pid
	wanted "$name" || return
	(
		sleep 3
		line_ctl cut
		sleep 10
		line_ctl uncut
	) &
	pid=$!
	rc_seconds=180 check_rc "$name" -P write -t 17 -q 2 --stall 90 "${@:2}"
	wait $pid
}

# The same with a buffer that is full long before the line is back: the requesters must be held off, not dropped.
check_cut_full() {
	local used
	wanted cut-10-s-full || return
	arena_size=16MiB use "$mode"
	check_cut full --fixed -n 256 -d 64
	used=$(edge_status a --json | sed -n 's/.*"rnr_naks_tx":\([0-9]*\).*/\1/p')
	if [ "${used:-0}" -gt 0 ]; then
		ok "requesters held off by RNR" "$used RNR NAKs"
	else
		bad "requesters held off by RNR" "no RNR NAK was sent"
	fi
	use "$mode"
}

# Programs that die in the middle of everything must not be in the way of those that come after.
check_killed() {
	local early=""
	wanted killed || return
	[ "$mode" = near ] && early=--early-acks
	pair "$mode-killed" 20 "rccheck -S -p PORT --timeout 4" \
		"rccheck -p PORT --timeout 3 $early -t 60 -P mix -b -q 4 PEER"
	pair "$mode-killed" 20 "rccheck -S -p PORT --timeout 3" \
		"rccheck -p PORT --timeout 10 $early -t 60 -P write -b -q 4 -R PEER"
	check_rc killed-and-after -n 32 -q 2 -b
	check_rc killed-and-after-R -n 32 -q 2 -b -R
}

# In near, and with the checker as strict as in host: it must see that completions come too early.
check_near_is_early() {
	local name=near-strict
	wanted near-strict || return
	line_set 1000 0 0 0
	pair $name 60 "rccheck -S -p PORT --timeout 60" "rccheck -p PORT -n 300 -s 4096 -P write --lat-min 9000 PEER"
	if grep -q 'WRONG.*too early' "$work/$name.a"; then
		ok "rccheck sees that near is early"
	else
		bad "rccheck sees that near is early" && show $name
	fi
	line_set "${km:-300}" "$line_loss" "$line_reorder" "$line_dup"
}

# --- the suites ---

perf_name() { # PROGRAM ARGS...
	echo "$*" | sed 's/-n [0-9]*//; s/-s [0-9]*//; s/  */_/g; s/_$//'
}

run_perf() {
	check_perf "$(perf_name "$@")" "$@"
}

impair() {
	line_loss=${loss:-$2} line_reorder=${reorder:-$3} line_dup=${dup:-$4}
	line_set "${km:-$1}" "$line_loss" "$line_reorder" "$line_dup"
	note "line: ${km:-$1} km, loss $line_loss, reordering $line_reorder, duplication $line_dup"
}

suite_quick() {
	local m
	impair 0 0 0 0
	use direct
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
		check_latency
		[ "$m" = near ] && check_near_is_early && check_cut ""
	done
	perf_seconds=30
	compare ib_write_bw -m 1024 -s 65536 -n 80
}

# One throughput directly and in mode near, for the ratio; asserts nothing.
compare() {
	local name direct near
	name=compare-$(perf_name "$@")
	[ "${modes:-near}" = near ] && [[ $name =~ $only ]] || return
	use near
	perf "$name" "$@" && near=$gbps
	use direct
	perf "$name" "$@" && direct=$gbps
	echo "direct $name ${direct:-0}" >>"$table"
	echo "near $name ${near:-0}" >>"$table"
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
}

median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] + 0 }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", (b + 0 != 0 ? a / b : 0) }'; }
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a >= b) }'; }

# once MODE KM NAME N ARGS...: one throughput, kept under MODE-NAME.
once() {
	local m=$1 name=$3
	[ "$line_km" = "$2" ] || line_set "$2" "$line_loss" "$line_reorder" "$line_dup"
	[ "$mode" = "$m" ] || use "$m"
	perf "$name" "${@:5}" -n "$4" || { bad "$name" "$pair_detail" && show "$m-$name"; }
	echo "$gbps" >>"$work/$m-$name.gbps"
	note "$m $name: $gbps Gbit/s"
}

# median_of MODE NAME: prints it and puts it into the table.
median_of() {
	local v
	v=$(median <"$work/$1-$2.gbps")
	echo "$1 $2 $v" >>"$table"
	echo "$v"
}

verdict() { # NAME VALUE BOUND
	if at_least "$2" "$3"; then ok "$1" "$2 (at least $3)"; else bad "$1" "$2 (at least $3)"; fi
}

# All that is compared is measured turn about, because the machine has other work.
accept_distance() {
	local args="ib_write_bw -s 65536 -m 4096 -t 1" i near_far direct_far near_0
	wanted distance || return
	impair 0 0 0 0
	for i in 1 2 3; do
		# shellcheck disable=SC2086
		{
			once direct 0 write-m4096-t1-0km 1000 $args
			once direct 1000 write-m4096-t1-1000km 100 $args
			once near 1000 write-m4096-t1-1000km 1500 $args
			once near 0 write-m4096-t1-0km 1500 $args
		}
	done
	median_of direct write-m4096-t1-0km >/dev/null
	near_0=$(median_of near write-m4096-t1-0km)
	direct_far=$(median_of direct write-m4096-t1-1000km)
	near_far=$(median_of near write-m4096-t1-1000km)
	verdict "1000 km, near / direct" "$(ratio "$near_far" "$direct_far")" 4
	verdict "1000 km / 0 km, near" "$(ratio "$near_far" "$near_0")" 0.8
}

accept_loss() {
	local name=write-m1024-300km-1% i
	wanted loss || return
	impair 300 1% 0 0
	for i in 1 2 3; do
		once direct 300 $name 150 ib_write_bw -s 65536 -m 1024
		once near 300 $name 600 ib_write_bw -s 65536 -m 1024
	done
	verdict "300 km, 1 % loss, near / direct" "$(ratio "$(median_of near $name)" "$(median_of direct $name)")" 3
}

suite_accept() {
	local m
	perf_seconds=120
	accept_distance
	accept_loss
	impair 300 0 0 0
	for m in ${modes:-near host}; do
		use "$m"
		check_latency
		check_cut ""
	done
}

# Two rounds: the first dead flows leave room, the second ones find it taken.
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

suite_shell() {
	impair 300 0 0 0
	use "${modes:-near}"
	cd "$work" && P=$P PATH=$vm_build:$tools:$daemon:$PATH bash -i
}

# Gbit/s by program and mode, and what longreach makes of it.
print_table() {
	[ -s "$table" ] || return
	printf '\n%-44s %9s %9s %9s %9s\n' "Gbit/s" direct near host near/direct
	awk '{ v[$2, $1] = $3; if (!seen[$2]++) order[++n] = $2 }
		function cell(x) { return x == "" ? "-" : sprintf("%.4f", x) }
		END { for (i = 1; i <= n; i++) { k = order[i]; d = v[k, "direct"]; m = v[k, "near"]
			printf "%-44s %9s %9s %9s %9s\n", k, cell(d), cell(m), cell(v[k, "host"]),
				(d + 0 != 0 && m != "" ? sprintf("%.2f", m / d) : "-") } }' "$table"
	echo
}

[ "$(id -u)" = 0 ] || die "needs root for network namespaces"
vm_build=$("$here/build_guest.sh") || die "no guests"
[ -x "$tools/wanline" ] || die "$tools/wanline is not built (make tools, or --build DIR)"
[ "$modes" = direct ] || [ -x "$daemon/longreachd" ] || die "$daemon/longreachd is not built (make, or --build DIR)"

topo_up || die "no topology"
line_up || die "no line"
[ -n "$pcap" ] && pcap_up "$pcap"
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
[ $failed = 0 ]
