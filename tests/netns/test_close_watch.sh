#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The closed state is guarded: `longreachd --close --watch` puts back what another program removes while no daemon runs, and
# leaves the rules to a daemon that does. Both edges forward and have routes. The line counts unsealed packets.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"
. "$(dirname "$0")/roce_closed.sh"

# As longreach-closed.service runs it.
watch_start() {
	rm -f "$LAB_DIR/notify"
	socat -u "UNIX-RECV:$LAB_DIR/notify" "OPEN:$LAB_DIR/notified,creat,trunc" 2>/dev/null &
	NOTIFIED=$!
	lab_wait 2 test -S "$LAB_DIR/notify" || why "no socket for systemd's part" || return
	NOTIFY_SOCKET=$LAB_DIR/notify ip netns exec "$LAB_ID-ea" "$LAB_BIN/longreachd" --close --watch --config-dir "$LAB_DIR/a" \
		--control "$LAB_DIR/a/control" ${WATCH_OPTIONS:-} >>"$LAB_DIR/watch.log" 2>&1 &
	WATCH=$!
}

watch_stop() {
	local status
	kill -TERM $WATCH 2>/dev/null
	wait $WATCH 2>/dev/null
	status=$?
	kill $NOTIFIED 2>/dev/null
	wait $NOTIFIED 2>/dev/null
	[ $status = 0 ] || why "it ends with status $status: $(tail -1 "$LAB_DIR/watch.log")"
}

is_ready() {
	grep -q READY=1 "$LAB_DIR/notified"
}

status_is() {
	grep -a STATUS= "$LAB_DIR/notified" | tail -1 | grep -q "$1"
}

roce_rules_of_the_link() { # of `ip rule`, both families
	{ lab_ip ea rule show; lab_ip ea -6 rule show; } | grep -c '^90:.*blackhole'
}

ip_rules_stand() {
	[ "$(roce_rules_of_the_link)" = "$RULES" ]
}

all_stands() {
	rules_stand && ip_rules_stand
}

remove_all() {
	lab_in ea nft flush ruleset
	lab_ip ea rule flush protocol 191
	lab_ip ea -6 rule flush protocol 191
}

ready_when_the_rules_stand() {
	lab_conf a >"$(lab_conf_path a)"
	opens || return
	watch_start || return
	lab_wait 5 is_ready || why "it does not get ready: $(tail -1 "$LAB_DIR/watch.log")" || return
	rules_stand || why "it is ready, and the rules do not stand" || return
	RULES=$(roce_rules_of_the_link)
	[ "$RULES" -gt 0 ] || why "no rules of ip rule" || return
	stays_closed
}

comes_back() { # what removes it
	local start ms
	start=$(lab_free_ms)
	"$@"
	lab_wait 3 all_stands || why "the rules do not come back: $(tail -1 "$LAB_DIR/watch.log")" || return
	ms=$(($(lab_free_ms) - start))
	[ $ms -le 1000 ] || why "back after $ms ms" || return
	stays_closed
	NOTE="back after $ms ms; $NOTE"
	[ -z "$WHY" ]
}

flush() { lab_in ea nft flush ruleset; }
flush_ip_rules() { lab_ip ea rule flush protocol 191 && lab_ip ea -6 rule flush protocol 191; }
one_nft_rule() {
	lab_in ea nft delete rule inet longreach_link forward handle \
		"$(lab_in ea nft -a list chain inet longreach_link forward | sed -n 's/.*drop # handle //p' | head -1)"
}

# One sentence for each, with what was gone.
names_what_was_gone() {
	local what
	for what in 'the nft tables netdev and inet longreach_link:' 'link link: .*removed or changed rules of `ip rule`:' \
		'rules of the nft table inet longreach_link:'; do
		grep -q "$what.*rules_changed" "$LAB_DIR/watch.log" || why "the log does not name $what" || return
	done
}

# The same while it restores rules.
removed_again() {
	local round
	for round in 1 2 3 4 5 6 7 8 9 10; do
		lab_in ea bash -c "nft flush ruleset; sleep 0.0$((round * 3 + 10)); nft flush ruleset; ip rule flush protocol 191
			sleep 0.0$((95 - round * 5)); nft flush ruleset"
		lab_wait 2 all_stands || why "round $round: no rules" || return
	done
}

# How often nft's ruleset changes by the command and in the three seconds behind it, between the tables "begin" and "end".
changes() { # command...
	ip netns exec "$LAB_ID-ea" nft monitor >"$LAB_DIR/monitor" 2>&1 &
	local monitor=$!
	lab_wait 2 marked begin
	"$@"
	sleep 3
	lab_wait 3 rules_stand
	lab_wait 2 marked end
	kill $monitor
	wait $monitor 2>/dev/null
	CHANGES=$(awk '/add table inet end/ { exit } /add table inet begin/ { on = 1; n = -1 } on && /new generation/ { n++ } END { print n + 0 }' \
		"$LAB_DIR/monitor")
}

# A table is made and deleted until the monitor shows both.
marked() { # name
	lab_in ea nft "add table inet $1; delete table inet $1"
	grep -q "delete table inet $1" "$LAB_DIR/monitor"
}

changes_once() { # command...: once by it, once by the one that puts the rules back
	changes "$@"
	NOTE="the ruleset changed $CHANGES times"
	[ "$CHANGES" = 2 ] || why "$NOTE"
}

says_nothing_new() {
	[ "$(wc -l <"$LAB_DIR/watch.log")" = "$LINES_BEFORE" ] || why "it says: $(tail -1 "$LAB_DIR/watch.log")"
}

a_file_that_is_not_understood() {
	local path
	path=$(lab_conf_path a)
	head -c 60 "$path" >"$path.half"
	mv "$path" "$path.saved" && mv "$path.half" "$path"
	kill -HUP $WATCH
	lab_wait 3 all_is_closed || why "all RoCE is not closed" || return
	lab_wait 2 status_is 'has an error' || why "systemd hears nothing of it" || return
	lab_in ea nft flush ruleset
	flush_ip_rules
	lab_wait 1 all_is_closed && lab_wait 1 rule_at_89 || why "what closes all RoCE does not come back" || return
	stays_closed || return
	mv "$path.saved" "$path"
	lab_in ea nft flush ruleset
	sleep 0.3
	kill -HUP $WATCH
	lab_wait 3 all_stands || why "the rules of the link do not come back" || return
	! all_is_closed && ! rule_at_89 || why "all RoCE is closed although the file is whole"
}

# /etc/default/longreach has an option that is misspelt, or that an upgrade has removed: first at a boot, then behind a daemon.
an_option_that_is_not_understood() {
	local status
	watch_stop || return
	remove_all
	opens || return
	WATCH_OPTIONS="--metrcis 9470"
	watch_start
	WATCH_OPTIONS=
	lab_wait 5 is_ready || why "it does not get ready: $(tail -1 "$LAB_DIR/watch.log")" || return
	rules_stand && all_is_closed && rule_at_89 || why "it is ready, and the rules do not stand" || return
	status_is 'an option of longreachd' || why "systemd hears nothing of it" || return
	grep -q "unrecognized option '--metrcis'" "$LAB_DIR/watch.log" || why "the log does not name the option" || return
	stays_closed || return
	watch_stop || return
	remove_all
	lab_in ea "$LAB_BIN/longreachd" --close --config-dri "$LAB_DIR/a" >"$LAB_DIR/close.log" 2>&1
	status=$?
	[ $status = 2 ] || why "--close ends with $status" || return
	all_is_closed && rule_at_89 || why "all RoCE is not closed by --close" || return
	watch_start
	lab_wait 5 is_ready || why "it does not get ready again" || return
	all_stands && ! all_is_closed && ! rule_at_89 || why "all RoCE stays closed when the options are right"
}

# The way back to direct RDMA.
a_file_that_is_gone() {
	mv "$(lab_conf_path a)" "$LAB_DIR/link.saved"
	lab_close a || why "--close: $(tail -1 "$LAB_DIR/close.log")" || return
	sleep 0.5
	! lab_in ea nft list tables | grep -q longreach || why "it puts back rules of a link without a file" || return
	opens || return
	mv "$LAB_DIR/link.saved" "$(lab_conf_path a)"
	kill -HUP $WATCH
	lab_wait 3 all_stands || why "the file is back, and its rules are not"
}

# A file that an editor renames.
a_file_that_is_away_for_a_moment() {
	mv "$(lab_conf_path a)" "$LAB_DIR/link.saved"
	lab_in ea nft add table inet longreach_other # a change that makes it look
	sleep 0.5
	mv "$LAB_DIR/link.saved" "$(lab_conf_path a)"
	lab_in ea nft delete table inet longreach_other || why "it removes tables" || return
	all_stands || why "rules are gone"
}

beside_a_daemon() {
	lab_edges
	lab_link_up || return
	lab_wait 2 status_is 'longreachd runs' || why "it does not see the daemon" || return
	LINES_BEFORE=$(wc -l <"$LAB_DIR/watch.log")
	lab_in ea nft list table inet longreach_link >"$LAB_DIR/form"
	grep -q 'oifname !=' "$LAB_DIR/form" || why "the test's link has no barrier" || return
	changes_once flush || return
	in_the_daemons_form && says_nothing_new || return
	lab_rcperf --iters 5 --size 4096 || why "nothing is carried"
}

in_the_daemons_form() {
	diff <(sed 's/packets [0-9]* bytes [0-9]*//' "$LAB_DIR/form") \
		<(lab_in ea nft list table inet longreach_link | sed 's/packets [0-9]* bytes [0-9]*//') >"$LAB_DIR/diff" ||
		why "the rules have another form: $(head -2 "$LAB_DIR/diff")"
}

# The daemon goes on with the prefixes that it was started with, and the file has others.
a_changed_file_that_waits() {
	sed -i 's/^RemotePrefix=10.101.12.0.*/&\nRemotePrefix=10.101.77.0\/24/; s/^Barrier=.*/Barrier=off/' "$(lab_conf_path a)"
	grep -q 77 "$(lab_conf_path a)" || why "the test changes nothing" || return
	changes_once flush && in_the_daemons_form && says_nothing_new || return
	lab_conf a >"$(lab_conf_path a)"
}

a_link_that_is_stopped() {
	lab_client a stop link >"$LAB_DIR/out" 2>&1 || why "$(cat "$LAB_DIR/out")" || return
	changes_once flush && says_nothing_new || return
	rules_stand || why "no rules" || return
	stays_closed || return
	lab_client a start link >"$LAB_DIR/out" 2>&1 || why "$(cat "$LAB_DIR/out")" || return
	lab_link_up
}

a_hangup_beside_a_daemon() {
	changes kill -HUP $WATCH
	[ "$CHANGES" = 0 ] || why "the ruleset changes $CHANGES times" || return
	in_the_daemons_form
}

# It has nobody to restart it here, and no --close is run behind it.
a_daemon_that_dies() {
	local start ms
	lab_edge_stop b
	start=$(date +%s%3N)
	lab_edge_stop a KILL
	lab_wait 4 ping_passes || why "the hosts' other IP does not flow" || return
	ms=$(($(date +%s%3N) - start))
	comes_back remove_all
	NOTE="IP flows $ms ms after; $NOTE"
}

a_daemon_that_stops() {
	lab_edges
	lab_link_up || return
	lab_edge_stop b
	changes lab_edge_stop a
	rules_stand || why "no rules" || return
	[ "$CHANGES" -le 4 ] || why "the ruleset changed $CHANGES times" || return
	comes_back remove_all
	NOTE="the ruleset changed $CHANGES times; $NOTE"
}

# And nothing else closed RoCE all the time.
without_it() {
	watch_stop || return
	all_stands || why "its end removes rules" || return
	lab_open b # the other edge's rules
	remove_all
	sleep 1
	opens
}

lab_up
lab_line --rate $LAB_LINE_RATE
lab_server $B_HOST
LAB_EXTRA=Link.Barrier=pair
mkdir -p "$LAB_DIR/a" "$LAB_DIR/b" "$LAB_SHM/a" "$LAB_SHM/b"
check "it is ready when the rules stand" ready_when_the_rules_stand
check "no daemon: a flushed ruleset and flushed ip rules" comes_back remove_all
check "no daemon: a flushed ruleset" comes_back flush
check "no daemon: flushed ip rules" comes_back flush_ip_rules
check "no daemon: a single rule of nft" comes_back one_nft_rule
check "the log names what was gone" names_what_was_gone
check "it changes the ruleset once" changes_once flush
check "also when rules are flushed again meanwhile" removed_again
check "a file that cannot be understood" a_file_that_is_not_understood
check "an option that is not understood" an_option_that_is_not_understood
check "a file that is gone opens the way" a_file_that_is_gone
check "a file that is away for a moment does not" a_file_that_is_away_for_a_moment
check "beside a daemon: the daemon restores its rules" beside_a_daemon
check "beside a daemon: also if the file has changed" a_changed_file_that_waits
check "beside a daemon: also of a link that is stopped" a_link_that_is_stopped
check "beside a daemon: SIGHUP changes nothing" a_hangup_beside_a_daemon
check "behind a daemon that died" a_daemon_that_dies
check "behind a daemon that stopped" a_daemon_that_stops
check "SIGTERM leaves the rules, and without it the way is open" without_it
check_end
