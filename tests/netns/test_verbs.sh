#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# longreach start, stop and restart of one of two links between the same two edges, and reloads that one of them cannot apply.
# The first link carries verified traffic all the time and must not be affected.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

eval "$(declare -f lab_conf | sed '1s/lab_conf/whole_conf/')"
lab_conf() { # a|b: the first link has hosts .2 and .3
	whole_conf "$1" | sed -E 's,(Prefix=10\.101\.[12])\.0/24,\1.0/30,; /Prefix=10\.101\.1[12]\./d; /Prefix=fd00/d'
}

two_conf() { # a|b: the second one .4 to .7
	lab_conf "$1" | sed -E 's,(Prefix=10\.101\.[12])\.0/30,\1.4/30,; s,^LocalAddress=.*,&\nPort=4792,'
}

two() { echo "$LAB_DIR/$1/two.conf"; }

start_both() {
	local e
	for e in a b; do
		mkdir -p "$LAB_DIR/$e"
		two_conf $e >"$(two $e)"
		[ $e = b ] || sed -i 's/^PeerName=.*/PeerName=nobody.link/' "$(two a)"
		LAB_DAEMON_ARGS="--config $(two $e)$([ $e = b ] || echo " --metrics 9470")" lab_edge_start $e
	done
	lab_wait 15 state_is link up || why "the first link: $(state_of link)"
}

of() { # link expression
	lab_status a ".links[] | select(.name == \"$1\") | $2"
}

state_of() { of "$1" .state; }
state_is() { [ "$(state_of "$1")" = "$2" ]; }

client() { # arguments...: its status; what it says in $LAB_DIR/said
	lab_client a "$@" >"$LAB_DIR/said" 2>&1
}

said() { grep -q -- "$1" "$LAB_DIR/said" || why "it said: $(head -3 "$LAB_DIR/said" | tr '\n' ';')"; }

two_carries() {
	lab_rcperf_between 10.101.1.4 10.101.2.4 "$LAB_DIR/two.json" --port 18525 --op mix --qps 2 --size 20000 --iters "${1:-50}" "${@:2}"
}

# Runs commands on the second link beside the first link's traffic.
beside_the_first() { # function...
	local life
	life=$(of link '"\(.peer.sessions) \(.counters.rules_restored)"')
	lab_load --op mix --qps 2 --size 20000 || why "no traffic" || return
	"$@"
	[ -n "$WHY" ] || lab_load_moves || why "the first link: no traffic at the end"
	lab_load_end || why "the first link: contents, order or count are wrong" || return
	[ "$(of link '"\(.peer.sessions) \(.counters.rules_restored)"')" = "$life" ] || why "the first link has begun again" || return
	NOTE="$NOTE the first link's slowest message: $(lab_result '.here.latency_us.max') us, $(lab_result .here.timeouts) timeouts"
	nothing_unsealed
	[ -z "$WHY" ]
}

nothing_unsealed() {
	local n
	n=$(lab_unsealed)
	[ "$n" = 0 ] || why "$n packets of hosts crossed the line unsealed"
}

wrong_name() {
	lab_wait 5 name_is_told || why "trouble: $(of two .peer.trouble)" || return
	sed -i 's/^PeerName=.*/PeerName=b.link/' "$(two a)"
	client reload || why "$(head -1 "$LAB_DIR/said")" || return
	lab_wait 12 state_is two up || why "state $(state_of two)" || return
	two_carries || why "the second link carries nothing"
}

name_is_told() { of two .peer.trouble | grep -q 'nobody.link'; }

# A PeerName= that becomes wrong is noticed before the connection breaks: the other edge has to prove itself again, and the
# session goes on meanwhile.
name_goes_wrong() {
	sed -i 's/^PeerName=.*/PeerName=nobody.link/' "$(two a)"
	client reload || why "$(head -1 "$LAB_DIR/said")" || return
	lab_wait 5 new_name_is_told || why "trouble: $(of two .peer.reauthentication.trouble)" || return
	state_is two up || why "state $(state_of two)" || return
	sed -i 's/^PeerName=.*/PeerName=b.link/' "$(two a)"
	client reload || why "$(head -1 "$LAB_DIR/said")" || return
	lab_wait 5 two_is_proven || why "it is still $(of two .peer.reauthentication.state)" || return
	state_is two up || why "state $(state_of two)"
}

new_name_is_told() { of two .peer.reauthentication.trouble | grep -q 'nobody.link'; }
two_is_proven() { [ "$(of two .peer.reauthentication.state)" = none ]; }

# The second link's change needs its restart; the other file's change is in force at once.
held_back() {
	local status
	printf '\n[Tuning]\nRnrRetry=finite\n' >>"$(two a)"
	sed -i 's/^Rate=.*/Rate=450M/' "$(lab_conf_path a)"
	client reload
	status=$?
	[ $status = 1 ] || why "reload ended with $status" || return
	said 'link two: goes on as it was started.*RnrRetry=.*longreach restart two' || return
	said 'link link: changed' || return
	[ "$(of link .rate_bps)" = 450000000 ] || why "the other file is not in force" || return
	[[ $(of two .restart_needed) = *RnrRetry=* ]] || why "status says nothing of it" || return
	metric 'longreach_link_restart_needed{link="two"} 1' || return
	metric 'longreach_link_restart_needed{link="link"} 0' || return
	client status && said 'file      is not in force' || return
	two_carries || why "it carries nothing" || return
	client restart two || why "$(head -1 "$LAB_DIR/said")" || return
	lab_wait 12 state_is two up || why "state $(state_of two)" || return
	[ "$(of two .restart_needed)" = "" ] || why "still: $(of two .restart_needed)" || return
	two_carries || why "after the restart it carries nothing"
}

metric() {
	lab_in ea busybox wget -qO - http://127.0.0.1:9470/metrics | grep -qxF -- "$1" || why "no metric $1"
}

# The file names fewer hosts than the running link: the removed hosts stay closed until the file is in force.
rules_stay_those_of_what_runs() {
	cp "$(two a)" "$LAB_DIR/two.good"
	sed -i -E 's,^(LocalPrefix=10\.101\.1)\.4/30,\1.4/31,' "$(two a)"
	! client reload || why "taken up by a running link" || return
	said 'LocalPrefix=' || return
	lab_rcperf_between 10.101.1.6 10.101.2.6 "$LAB_DIR/six.json" --port 18526 --size 20000 --iters 50 ||
		why "a host that the running link has is not carried" || return
	nothing_unsealed || return
	cp "$LAB_DIR/two.good" "$(two a)"
	client reload || why "$(head -1 "$LAB_DIR/said")" || return
	[ "$(of two .restart_needed)" = "" ] || why "still: $(of two .restart_needed)"
}

other_edge_knows() { [ "$(lab_status b '.links[] | select(.name == "two") | .state')" = peer_stopped ]; }

two_moves() { # packets from hosts before
	[ "$(of two .counters.lan_rx_packets)" -gt $(($1 + 100)) ]
}

# In the middle of its traffic, which completes after the start.
stop_and_start() {
	local pid from
	from=$(of two .counters.lan_rx_packets)
	two_carries 2000 --timeout-ms 3000 &
	pid=$!
	lab_wait 5 two_moves "$from" || why "the second link carries nothing" || return
	client stop two || why "$(head -1 "$LAB_DIR/said")" || return
	said 'stays closed' || return
	state_is two stopped || why "state $(state_of two)" || return
	client reload || why "$(head -1 "$LAB_DIR/said")" || return
	said 'link two: stays stopped' || return
	! client status --check || why "--check says that all is well" || return
	said 'link two is stopped: .*longreach start two' || return
	metric 'longreach_link_state{link="two",state="stopped"} 1' || return
	lab_wait 6 other_edge_knows || why "the other edge says $(lab_status b '.links[] | select(.name == "two") | .state')" || return
	sleep 2.2 # the daemon would have retried a link that does not start
	state_is two stopped || why "it came back by itself: $(state_of two)" || return
	nothing_unsealed || return
	client start two || why "$(head -1 "$LAB_DIR/said")" || return
	lab_wait 12 state_is two up || why "state $(state_of two)" || return
	wait $pid || why "the second link's traffic: $(tail -1 "$LAB_DIR/rcperf.err")" || return
	client start two && said 'is running already'
}

# An invalid file stops nothing, and neither does an invalid file of another link.
bad_files() {
	cp "$(two a)" "$LAB_DIR/two.good"
	sed -i 's/^Rate=.*/Rate=banana/' "$(two a)"
	! client restart two || why "a bad file was taken" || return
	said banana || return
	state_is two up || why "state $(state_of two)" || return
	! client reload || why "a bad file was taken" || return
	client stop nobody && why "there is no such link" && return 1
	said 'no link nobody' || return
	client restart link || why "another link's bad file stands in the way: $(head -1 "$LAB_DIR/said")" || return
	lab_wait 12 state_is link up || why "state $(state_of link)" || return
	! lab_in ea nft list table inet longreach >/dev/null 2>&1 || why "RoCE of nobody's link was closed for it" || return
	cp "$LAB_DIR/two.good" "$(two a)"
}

# A member of the daemon's group, here root's, can read everything but packets and change nothing; others can read nothing.
looks() { # group command...
	local group=$1
	shift
	lab_in ea setpriv --reuid 65534 --regid "$group" --clear-groups --inh-caps=-all "$LAB_DIR/longreach" --control "$LAB_DIR/a/control" "$@" \
		>"$LAB_DIR/said" 2>&1
}

group_looks() {
	chmod 711 "$LAB_DIR" "$LAB_DIR/a"
	cp "$LAB_BIN/longreach" "$LAB_DIR/longreach"
	looks 0 status || why "$(head -1 "$LAB_DIR/said")" || return
	said '^two: ' || return
	looks 0 status --check && looks 0 failed && looks 0 version || why "$(head -1 "$LAB_DIR/said")" || return
	! looks 0 stop two || why "it may stop a link" || return
	said 'not allowed.*as root' || return
	! looks 0 reload && ! looks 0 trace two --seconds 1 || why "it may reload or trace" || return
	state_is two up || why "state $(state_of two)" || return
	! looks 65534 status || why "anybody may look" || return
	said 'not allowed: run longreach as root; members of' || return
	[ "$(stat -c %a "$LAB_DIR/a/control" "$LAB_DIR/a/status" | tr '\n' ' ')" = "600 660 " ] || why "modes" || return
	client restart two && grep -q 'longreach restart two` by user 0, process' "$LAB_DIR/a/log" || why "the log does not say who" || return
	lab_wait 12 state_is two up || why "state $(state_of two)"
}

# The next daemon decides by the file alone.
daemon_restart() {
	client stop two || why "$(head -1 "$LAB_DIR/said")" || return
	lab_edge_stop a
	LAB_DAEMON_ARGS="--config $(two a)" lab_edge_start a
	cp "$LAB_DIR/two.good" "$(two a)"
	lab_wait 10 state_is two up || why "state $(state_of two)"
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 30
lab_server $B_HOST
lab_server 10.101.2.4 --port 18525
lab_server 10.101.2.6 --port 18526
lab_watch_line
check "both links start, one with a wrong PeerName=" start_both
check "PeerName= put right by a reload" beside_the_first wrong_name
check "PeerName= that becomes wrong is seen at once" beside_the_first name_goes_wrong
check "a change for a start only: held back, restart LINK takes it up" beside_the_first held_back
check "held back: the rules stay those of what runs" beside_the_first rules_stay_those_of_what_runs
check "stop, reload, start in the midst of traffic" beside_the_first stop_and_start
check "a bad file, a wrong name" bad_files
check "who may look changes nothing" group_looks
check "a daemon that starts anew asks the file" daemon_restart
check_end
