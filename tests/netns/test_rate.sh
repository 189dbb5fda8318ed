#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# RateControl=auto between real daemons: auto finds and keeps the rate of a line of less than half of Rate=, 50 ms long, also
# with losses; routers' marks are obeyed, and a path that clears them is detected. rcperf verifies every byte.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

LINE_MBPS=200
KM=5000 # 50 ms there and back

link() {
	lab_relink $KM
}

# At least PERCENT of the line, beginning and end included: a lower bound, no benchmark.
share() { # percent rcperf-options...
	local want=$1 got
	shift
	lab_rcperf --size 65536 --depth 64 "$@" || why "contents, order or count are wrong" || return
	got=$(lab_result ".goodput_gbps * 100000 / $LINE_MBPS | round")
	NOTE="$got % of the line, wanted are $want %; $(lab_client a status | sed -n 's/^ *rate auto: //p')"
	[ "$got" -ge "$want" ] || why "$NOTE"
}

# Skipped if the machine could not carry it. Wrong contents are no matter of rate.
carries() { # share() or lossy(), and their arguments
	lab_rate_test "$@"
	local status=$?
	[ $status != 77 ] || [[ $WHY != *"are wrong"* ]] || status=1
	return $status
}

lossy() {
	lab_line_set $KM loss=1%
	share "$@"
}

# Startup ends, however late this machine's processors wake the worker.
past_startup() {
	lab_load --size 65536 --depth 64 || why "no traffic" || return
	lab_wait 5 startup_is_over || why "it is still at '$NOTE'"
	lab_load_end || why "contents, order or count are wrong"
	[ -z "$WHY" ]
}

startup_is_over() {
	NOTE=$(lab_client a status | sed -n 's/^ *rate auto: //p')
	[ -n "$NOTE" ] && [[ $NOTE != startup* ]]
}

ecn() { # a|b
	lab_status "$1" '.links[0].paths[0].ecn'
}

used() {
	[ "$(ecn a)" = used ] || why "ECN is '$(ecn a)' at the edge that sent, on a path that keeps the field"
}

# Treatment of the ECN field by a router on the way.
router() { # nft statement
	lab_in eb nft -f - <<-END
		table ip router
		flush table ip router
		table ip router {
			chain way {
				type filter hook prerouting priority mangle
				ip saddr 192.0.2.1 udp sport != 0 ip ecn ect0 $1
			}
		}
	END
}

marks_since() { # count
	[ "$(lab_status a '.links[0].paths[0].marked')" -gt "$1" ]
}

ecn_has_failed() {
	[ "$(ecn a)" = failed ]
}

marked() {
	local before after
	before=$(lab_status a '.links[0].paths[0].marked')
	router "numgen random mod 100 < 2 ip ecn set ce" || why "nft does not mark here" || return
	lab_line_set $KM
	lab_load --size 65536 --depth 64 || why "no traffic" || return
	lab_wait 3 marks_since "$before" || why "no mark came back to the sender"
	lab_load_end || why "contents, order or count are wrong"
	after=$(lab_status a '.links[0].paths[0].marked')
	NOTE="$((after - before)) marks obeyed"
	[ -z "$WHY" ] || return
	[ "$(ecn a)" = used ] || why "ECN is '$(ecn a)'"
}

bleached() {
	router "ip ecn set not-ect" || why "nft does not clear the field here" || return
	link || return
	lab_load --size 65536 --depth 64 || why "no traffic" || return
	lab_wait 3 ecn_has_failed || why "ECN is '$(ecn a)' on a path that clears the field"
	lab_load_end || why "contents, order or count are wrong"
	[ -z "$WHY" ]
}

LAB_RATE=475M LAB_EXTRA=Path.RateControl=auto
lab_up
lab_line --rate ${LINE_MBPS}M --queue 25ms
lab_server $B_HOST
check "rate: the link comes up with RateControl=auto" link
check "rate: the line is found" carries share 45 --secs 3
check "rate: startup is over" past_startup
check "rate: ECT(0) is sent, and comes through" used
check "rate: 1 % of losses" carries lossy 35 --secs 2
check "rate: marks are obeyed" marked
check "rate: a path that clears them is found out" bleached
check_end
