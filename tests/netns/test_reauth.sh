#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Keys that change while a session runs: the other edge proves itself again beside the traffic, or the session ends.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

reauth() { # a|b
	lab_status "$1" '.links[0].peer.reauthentication.state'
}

is_reauth() { # a|b state
	[ "$(reauth "$1")" = "$2" ]
}

is_state() { # a|b state
	[ "$(lab_status "$1" '.links[0].state')" = "$2" ]
}

sessions() { # a|b
	lab_status "$1" '.links[0].peer.sessions'
}

# The set that was made last: $LAB_DIR/new.
make_keys() {
	rm -rf "$LAB_DIR/new"
	"$LAB_BIN/longreach" keygen link --dir "$LAB_DIR/new" >/dev/null || why "keygen failed"
}

give_keys() { # a|b directory
	cp "$2/$1"/* "$LAB_DIR/keys/$1/"
	lab_client "$1" reload >"$LAB_DIR/reload.out" 2>&1 || why "reload of $1: $(head -1 "$LAB_DIR/reload.out")"
}

settled() { # sessions of A and of B before
	is_reauth a none && is_reauth b none && lab_link_is_up && [ "$(sessions a)" -gt "$1" ] && [ "$(sessions b)" -gt "$2" ]
}

# --check fails, and says so.
check_names() { # a|b pattern
	! lab_client "$1" status --check >/dev/null 2>"$LAB_DIR/check" || why "--check at $1 is content" || return
	grep -q "$2" "$LAB_DIR/check" || why "--check at $1 says $(cat "$LAB_DIR/check")"
}

# The doctor, whom one asks first, finds it as well.
doctor_names() { # a|b pattern
	lab_in "e$1" "$LAB_BIN/longreach" --control "$LAB_DIR/$1/control" doctor >"$LAB_DIR/doctor" 2>&1
	grep -q "^link: keys: $2" "$LAB_DIR/doctor" || why "the doctor at $1 says $(head -1 "$LAB_DIR/doctor")"
}

# Whether the link was ever not up in the meantime, or lost its control connection before the new one was made.
watch_state() {
	local s
	while sleep 0.05; do
		s=$(lab_status a '.links[0] | .state + " " + (.peer.connected | tostring)')
		[ "$s" = "up true" ] || echo "$s" >>"$LAB_DIR/states"
	done
}

says_why() { # a|b
	[ -n "$(lab_status "$1" '.links[0].peer.reauthentication.trouble // empty')" ]
}

# A set of an unknown CA, brought to one edge after the other, under load.
rotation() { # first second
	local at_a at_b watch started
	make_keys || return
	at_a=$(sessions a) at_b=$(sessions b)
	rm -f "$LAB_DIR/states"
	lab_load --depth 32 --bidir || why "no traffic" || return
	watch_state &
	watch=$!
	give_keys "$1" "$LAB_DIR/new" || return
	grep -q 'keys have changed' "$LAB_DIR/reload.out" || why "reload says: $(head -1 "$LAB_DIR/reload.out")"
	lab_wait 1 is_reauth "$1" due || why "edge $1 is $(reauth "$1") with new keys"
	lab_wait 2 is_reauth "$2" asked || why "edge $2 is $(reauth "$2") while the other one waits"
	lab_wait 2 says_why "$1" || why "edge $1 does not say why"
	lab_client "$1" status | grep -q 'keys .*have changed: the other edge has [12][0-9][0-9] s' || why "not in the table"
	check_names "$1" "link link: its session ends in [12][0-9][0-9] s: .*CA="
	check_names "$2" "link link: its session ends soon: this edge .*CA="
	doctor_names "$1" "its session ends in [12][0-9][0-9] s: .*CA=.* -> "
	doctor_names "$2" "its session ends soon: this edge .*CA=.* -> "
	give_keys "$2" "$LAB_DIR/new"
	started=$(date +%s%3N)
	lab_wait 3 settled "$at_a" "$at_b" ||
		why "A $(reauth a), $at_a then $(sessions a) sessions; B $(reauth b), $at_b then $(sessions b)"
	NOTE="proven after $(($(date +%s%3N) - started)) ms"
	kill $watch
	lab_load_end || why "contents, order or count are wrong" || return
	[ ! -s "$LAB_DIR/states" ] || why "the link was $(sort "$LAB_DIR/states" | uniq -c | head -1)"
	[ -z "$WHY" ]
}

# Edge A accepts both the old and the new CA: no attempt fails, and edge B never waits.
overlap() {
	local at_a at_b failed
	make_keys || return
	failed=$(attempts_failed)
	at_a=$(sessions a) at_b=$(sessions b)
	cat "$LAB_DIR/new/a/link.ca.crt" "$LAB_DIR/keys/a/link.ca.crt" >"$LAB_DIR/both.crt"
	cp "$LAB_DIR/both.crt" "$LAB_DIR/keys/a/link.ca.crt"
	lab_client a reload >"$LAB_DIR/reload.out" || return
	lab_wait 3 settled "$at_a" "$at_b" || why "with both CAs at A: A $(reauth a), B $(reauth b)" || return
	at_a=$(sessions a) at_b=$(sessions b)
	cp "$LAB_DIR/both.crt" "$LAB_DIR/new/b/link.ca.crt"
	give_keys b "$LAB_DIR/new" || return
	lab_wait 3 settled "$at_a" "$at_b" || why "with new keys at B: A $(reauth a), B $(reauth b)" || return
	lab_rcperf --size 4096 --iters 20 || why "no traffic"
	[ "$(attempts_failed)" = "$failed" ] || why "an attempt failed"
}

attempts_failed() {
	cat "$LAB_DIR"/[ab]/log | grep -c 'second control connection, by which'
}

unchanged() {
	local at
	at=$(sessions a)
	lab_client a reload >"$LAB_DIR/reload.out" || return
	grep -q unchanged "$LAB_DIR/reload.out" || why "$(head -1 "$LAB_DIR/reload.out")" || return
	sleep 1.5
	is_reauth a none && is_reauth b none && [ "$(sessions a)" = "$at" ] || why "there is another session"
}

# The link file needs a restart; the keys under the names in force are reloaded without one.
held_back() {
	local at_a at_b
	make_keys || return
	at_a=$(sessions a) at_b=$(sessions b)
	cp "$(lab_conf_path a)" "$LAB_DIR/conf.good"
	printf '\n[Tuning]\nRnrRetry=finite\n' >>"$(lab_conf_path a)"
	cp "$LAB_DIR/new/a"/* "$LAB_DIR/keys/a/"
	! lab_client a reload >"$LAB_DIR/reload.out" 2>&1 || why "the file was taken up" || return
	grep -q 'goes on as it was started.*RnrRetry=.*its keys have changed' "$LAB_DIR/reload.out" ||
		why "reload says: $(cat "$LAB_DIR/reload.out")"
	is_reauth a due || why "edge A is $(reauth a) with new keys" || return
	give_keys b "$LAB_DIR/new" || return
	lab_wait 4 settled "$at_a" "$at_b" || why "A $(reauth a), B $(reauth b)" || return
	cp "$LAB_DIR/conf.good" "$(lab_conf_path a)"
	lab_client a reload >"$LAB_DIR/reload.out" || why "$(cat "$LAB_DIR/reload.out")"
}

short_patience() {
	lab_edges_stop
	LAB_EXTRA=Security.ReauthWithin=3s
	lab_edges
	lab_link_up
}

# Edge B never gets the new keys: as if a stranger had a copy of the old ones.
never_proven() { # who has new keys, the other
	local ms
	make_keys || return
	lab_load --depth 8 || why "no traffic" || return
	ms=$(date +%s%3N)
	give_keys "$1" "$LAB_DIR/new" || return
	lab_within 6 is_state "$1" waiting ||
		why "edge $1 is $(lab_status "$1" .links[0].state) after ${LAB_TOOK_MS:-} ms" || return
	ms=$(($(date +%s%3N) - ms))
	[ $ms -ge 3000 ] || why "the session ended too soon: after $ms ms" || return
	is_reauth "$1" failed || why "edge $1: $(reauth "$1")" || return
	grep -qE 'this edge has ended the session, and carries no packets: .*(signed by CA=|CA= did not sign)' "$LAB_DIR/$1/log" ||
		why "the log does not say it" || return
	! lab_client "$1" status --check >/dev/null 2>"$LAB_DIR/check" || why "--check is content" || return
	grep -q 'CA=' "$LAB_DIR/check" || why "--check says $(cat "$LAB_DIR/check")" || return
	lab_wait 3 is_state "$2" dead || why "edge $2 is $(lab_status "$2" .links[0].state)" || return
	[ "$(lab_status "$1" '.links[0].drops.wan_bad_epoch')" -gt 0 ] || why "what edge $2 sent was believed" || return
	NOTE="ended after $ms ms"
	give_keys "$2" "$LAB_DIR/new" || return
	lab_wait 5 lab_link_is_up || why "the link does not come back: $(lab_status "$1" .links[0].peer.trouble)" || return
	is_reauth a none && is_reauth b none || why "A $(reauth a), B $(reauth b)" || return
	lab_load_moves || why "no traffic afterwards"
	lab_load_end || why "contents, order or count are wrong over the end of the session"
}

lab_up
lab_line --rate $LAB_LINE_RATE
lab_server $B_HOST
lab_line_set 30
lab_edges
check "the link comes up" lab_link_up
check "new keys under load, edge A first" rotation a b
check "new keys under load, edge B first" rotation b a
check "keys that say the same change nothing" unchanged
check "an old and a new CA in one file" overlap
check "new keys beside a file that waits for a restart" held_back
check "three seconds of patience" short_patience
check "edge A has new keys, edge B never gets them" never_proven a b
check "edge B has new keys, edge A never gets them" never_proven b a
check_end
