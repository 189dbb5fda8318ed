#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The endpoint on which the other tests rely, tested alone: it carries messages, recovers from losses, and detects errors.
#
#   10.102.0.1 +----+ direct                                      direct +----+ 10.102.0.2
#   -----------+ ha +---------------------------------------------------+ hb +-----------
#   10.102.1.2 |    |rdma0      lan0 +----+ lan1                    rdma0|    | 10.102.2.2
#              +----+----------------+ ea +------------------------------+----+
#                                    +----+ a router
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

leg() { # host interface address prefix-length router interface address
	lab_veth "$1" "$2" "$5" "$6"
	lab_ip "$1" addr add "$3/$4" dev "$2"
	lab_ip "$5" addr add "$7/$4" dev "$6"
	lab_ip "$1" link set "$2" up
	lab_ip "$5" link set "$6" up
}

set_up() {
	trap lab_down EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	[ "$(id -u)" = 0 ] || lab_die "network namespaces need root"
	[ -x "$LAB_TOOLS/rcperf" ] || lab_die "$LAB_TOOLS/rcperf is not built (make O=... tools)"
	LAB_DIR=$(mktemp -d "/tmp/$LAB_ID.XXXXXX")
	for ns in ha ea hb; do
		lab_add_ns $ns
	done
	leg ha direct 10.102.0.1 24 hb direct 10.102.0.2
	leg ha rdma0 10.102.1.2 24 ea lan0 10.102.1.1
	leg hb rdma0 10.102.2.2 24 ea lan1 10.102.2.1
	lab_ip ha addr add fd00:102:1::2/64 dev rdma0 nodad
	lab_ip ea addr add fd00:102:1::1/64 dev lan0 nodad
	lab_ip hb addr add fd00:102:2::2/64 dev rdma0 nodad
	lab_ip ea addr add fd00:102:2::1/64 dev lan1 nodad
	lab_ip ha route add default via 10.102.1.1
	lab_ip hb route add default via 10.102.2.1
	lab_ip ha -6 route add default via fd00:102:1::1
	lab_ip hb -6 route add default via fd00:102:2::1
	lab_sysctl ea net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
}

# One test between two fresh ends: where=direct|routed|routed6, server options (quoted), client options...
pair() {
	local where=$1 server=$2 status
	shift 2
	case $where in
	direct) LAB_DEV=direct LAB_FROM=10.102.0.1 LAB_TO=10.102.0.2 ;;
	routed) LAB_DEV=rdma0 LAB_FROM=10.102.1.2 LAB_TO=10.102.2.2 ;;
	routed6) LAB_DEV=rdma0 LAB_FROM=fd00:102:1::2 LAB_TO=fd00:102:2::2 ;;
	esac
	: >"$LAB_DIR/server.log"
	lab_server "$LAB_TO" --once $server || why "the server does not start" || return
	lab_rcperf "$@"
	status=$?
	wait $LAB_SERVER_PIDS 2>/dev/null # it ends by itself
	LAB_SERVER_PIDS=
	return $status
}

carries() { # as pair: everything arrives once, in order, with the right bytes
	pair "$@" || why "contents, order or count are wrong" || return
	NOTE="$(lab_result '"\(.goodput_gbps * 1000 | round / 1000) Gbit/s, \(.messages) messages, \(.here.retries) retries"')"
	holds "$(lab_result .messages) > 0" || why "no message completed"
}

mends() { # the same, with repairs: a jq condition for them, then as pair
	local condition=$1
	shift
	carries "$@" || return
	[ "$(lab_result "$condition")" = true ] || why "nothing happened that this test is about: $condition is false"
}

fails() { # the test fails with a reason: a word of it, then as pair
	local reason=$1
	shift
	! pair "$@" || why "it passed" || return
	[ "$(lab_result .ok)" = false ] || why "no verdict" || return
	grep -q "$reason" "$LAB_DIR/client.json" || why "not for the expected reason: $(lab_result '.failure, .peer_failure')"
}

set_up
for op in write send write-imm read; do
	check "rcperf: $op, 64 KiB" carries direct "" --op $op --secs 0.5
done
check "rcperf: fetch and add" carries direct "" --op fadd --secs 0.3
check "rcperf: PMTU 1024" carries direct "" --mtu 1024 --size 16384 --secs 0.5
check "rcperf: PMTU 256, messages of 1 to 8 packets" carries direct "" --mtu 256 --size 2000 --op mix --secs 0.3
check "rcperf: one message at a time" carries direct "" --depth 1 --size 8 --secs 0.3
check "rcperf: empty messages" carries direct "" --size 0 --op send --secs 0.2
check "rcperf: a mix of all operations, both ways, 8 QPs" carries direct "" --op mix --qps 8 --bidir --depth 32 --secs 0.5
check "rcperf: 1000 QPs from PSN 0 with equal QPNs at both ends" \
	carries direct "--qpn 256 --psn 0" --qpn 256 --psn 0 --qps 1000 --depth 2 --size 4096 --iters 20
check "rcperf: PSNs wrap" carries direct "--psn 16777200" --psn 16777100 --op mix --iters 2000 --bidir
check "rcperf: through a router" carries routed "" --secs 0.5
check "rcperf: through a router, IPv6" carries routed6 "" --op mix --secs 0.5
for op in write send read fadd mix; do
	check "rcperf: $op, 1 % loss each way" mends ".here.retries > 0" \
		direct "--drop 0.01" --drop 0.01 --op $op --depth 16 --secs 1
done
check "rcperf: mix, both ways, 4 QPs, 5 % loss" mends ".here.timeouts > 0" \
	direct "--drop 0.05 --timeout-ms 10" --drop 0.05 --timeout-ms 10 --op mix --size 9000 --qps 4 --bidir --depth 16 --secs 1
check "rcperf: QPs by CM" carries direct "" --cm --qps 50 --depth 8 --op mix --size 8000 --secs 0.3
check "rcperf: QPs by CM, both ways, 2 % loss" carries \
	direct "--drop 0.02" --drop 0.02 --cm --qps 8 --bidir --depth 8 --op mix --size 8000 --iters 100
check "rcperf: a program that posts no receives for 50 ms" mends ".here.rnr_rx > 0" \
	direct "--recv-depth 16 --freeze-ms 50 --freeze-after 100" --op send --iters 2000 --size 5000
check "rcperf: a responder that stands still for 150 ms" mends ".here.timeouts > 0" \
	direct "--hang-ms 150 --hang-after 0.2" --iters 20000 --size 16384
check "rcperf: paced to 0.5 Gbit/s" mends ".goodput_gbps > 0.1 and .goodput_gbps < 0.51" \
	direct "" --rate 0.5 --depth 16 --secs 1
check "rcperf: finite RNR retries run out" fails "RNR retries exhausted" \
	direct "--recv-depth 16 --freeze-ms 500 --freeze-after 100 --rnr-timer-ms 1" \
	--rnr-retry 3 --op send --iters 2000 --size 5000
check "rcperf: finite retries run out, repeated after 2 to 16 ms as ConnectX does" fails "retries exhausted" \
	direct "--hang-ms 1500 --hang-after 0.2" --adaptive-retrans --iters 100000 --size 16384
check "rcperf: a wrong R_Key is refused" fails "remote access error" direct "" --bad-rkey-at 500 --iters 1000
check "rcperf: a wrong byte is found" fails '"packets_wrong":1' direct "" --bad-byte-at 500 --iters 1000 --size 10000
check_end
