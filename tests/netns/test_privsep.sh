#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two processes: the child, which reads packets of hosts, peers and clients, has no capabilities, and can be lost and replaced.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

status_of() { # pid field
	awk -v field="$2:" '$1 == field { print $2 }' "/proc/$1/status"
}

NET_AND_NICE=0000000000803400

# A sanitizer's build has no filter.
is_sanitized() {
	grep -q "built with a sanitizer" "$LAB_DIR/a/log"
}

child_has_nothing() { # a|b
	local child field
	child=$(lab_edge_child "$1")
	[ -n "$child" ] || why "there is no child" || return
	for field in CapInh CapPrm CapEff CapAmb; do
		[ "$(status_of "$child" $field)" = 0000000000000000 ] || why "$field is $(status_of "$child" $field)" || return
	done
	is_sanitized || [ "$(status_of "$child" Seccomp)" = 2 ] || why "no filter for system calls" || return
	is_sanitized || [ "$(status_of "$child" NoNewPrivs)" = 1 ] || why "it could gain rights by a program" || return
}

parent_has_four() { # a|b
	local field
	for field in CapPrm CapEff CapBnd; do
		[ "$(status_of "${LAB_EDGE_PID[$1]}" $field)" = $NET_AND_NICE ] ||
			why "$field is $(status_of "${LAB_EDGE_PID[$1]}" $field)" || return
	done
}

# Its threads have none either: they are started after the filter.
threads_have_nothing() {
	local task
	for task in "/proc/$(lab_edge_child a)"/task/*; do
		grep -q '^CapEff:.0000000000000000' "$task/status" || why "$(cat "$task/comm") has rights" || return
		is_sanitized || grep -q '^Seccomp:.2' "$task/status" || why "$(cat "$task/comm") has no filter" || return
	done
}

# mlock(2) does not outlive fork(2).
keys_are_locked() {
	grep -q '^VmFlags:.* lo lf .*dd' "/proc/$(lab_edge_child a)/smaps" || why "no locked memory that is in no core dump"
}

traffic() {
	# shellcheck disable=SC2086 # several words
	lab_rcperf --op mix --qps 4 --size 20000 --iters 100 $LAB_PATIENT || why "traffic fails"
}

# Acknowledged, undelivered bytes survive the process that held them.
child_is_replaced() {
	local child parent=${LAB_EDGE_PID[a]} start ms
	child=$(lab_edge_child a)
	# shellcheck disable=SC2086 # several words
	lab_load --op write --qps 4 --size 100000 $LAB_PATIENT || why "no traffic" || return
	start=$(date +%s%3N)
	LAB_CRASH_MEANT=yes
	kill -SEGV "$child"
	lab_wait 3 another_child a "$child" || why "no other child" || return
	lab_wait 5 lab_client a status --check >"$LAB_DIR/check.out" || why "$(cat "$LAB_DIR/check.out")" || return
	ms=$(($(date +%s%3N) - start))
	lab_load_moves || why "no traffic by the new one"
	lab_load_end || why "the client failed: $(lab_result .failure)"
	[ -z "$WHY" ] || return
	! check_wrong_data || why "contents are wrong" || return
	[ "${LAB_EDGE_PID[a]}" = "$parent" ] && lab_edge_alive a || why "another parent" || return
	grep -q 'was ended by signal 11' "$LAB_DIR/a/log" || why "the log does not say so" || return
	NOTE="works again $ms ms after"
}

another_child() { # a|b pid
	local now
	now=$(lab_edge_child "$1")
	[ -n "$now" ] && [ "$now" != "$2" ]
}

# While there is no child no other program can take the edge's ports. Edge B is the one that listens.
ports_stay_taken() {
	local child
	child=$(lab_edge_child b)
	lab_in eb timeout 10 perl -MSocket -e '
		$end = time + 3;
		while (time < $end) {
			for ([SOCK_DGRAM, "udp"], [SOCK_STREAM, "tcp"]) {
				socket(S, PF_INET, $_->[0], 0);
				$n++;
				setsockopt(S, SOL_SOCKET, SO_REUSEADDR, 1) if $_->[1] eq "tcp";
				if (bind(S, sockaddr_in(4790, inet_aton("192.0.2.2")))) { print $_->[1]; exit 1 }
				close S;
			}
		}
		print "$n tries"' >"$LAB_DIR/binds" &
	local stranger=$!
	sleep 0.3
	kill -KILL "$child"
	wait $stranger || why "a stranger got the port: $(cat "$LAB_DIR/binds")" || return
	lab_wait 3 another_child b "$child" || why "no other child" || return
	NOTE=$(cat "$LAB_DIR/binds")
	lab_link_up
}

# A child that cannot start releases the ports, and a later child gets them: no copy of a descriptor stays open.
child_starts_late() {
	local child key=$LAB_DIR/keys/b/link.key
	child=$(lab_edge_child b)
	mv "$key" "$key.away"
	kill -KILL "$child"
	lab_wait 3 another_child b "$child" || why "no other child" || return
	sleep 5 # it tries every 2 s
	mv "$key.away" "$key"
	lab_wait 8 lab_link_is_up || why "$(lab_status b '.links[0] | .state + ": " + .error')"
}

# If the child always dies, the parent ends and leaves the restart to systemd.
gives_up() {
	local i child status
	for i in 1 2 3 4 5 6; do
		lab_wait 3 lab_edge_child a >/dev/null || break
		child=$(lab_edge_child a)
		kill -KILL "$child" 2>/dev/null
		lab_wait 3 lab_gone "$child"
	done
	lab_wait 3 lab_gone "${LAB_EDGE_PID[a]}" || why "it goes on after $i times" || return
	wait "${LAB_EDGE_PID[a]}"
	status=$?
	unset 'LAB_EDGE_PID[a]'
	[ $status != 0 ] || why "status 0: systemd would not start it again" || return
	NOTE="status $status"
	lab_edge_start a
	lab_link_up
}

child_dies_with_parent() {
	local child
	child=$(lab_edge_child a)
	{ kill -KILL "${LAB_EDGE_PID[a]}" && wait "${LAB_EDGE_PID[a]}"; } 2>/dev/null
	lab_wait 2 lab_gone "$child" || why "it goes on" || return
	unset 'LAB_EDGE_PID[a]'
	lab_edge_start a
	lab_link_up
}

# A log without a reader ends neither process.
log_is_gone() {
	local child
	lab_edge_stop a
	# shellcheck disable=SC2016
	printf '#!/bin/bash\nexec > >(true) 2>&1\nexec "$@"\n' >"$LAB_DIR/unread"
	lab_daemon_under bash "$LAB_DIR/unread"
	lab_edge_start a
	lab_link_up || return
	child=$(lab_edge_child a)
	kill -KILL "$child"
	lab_wait 3 another_child a "$child" || why "no other child" || return
	lab_link_up && traffic
	lab_edge_stop a
	lab_daemon_alone
	lab_edge_start a
	lab_link_up
}

# As with systemd's User=: no file that the daemon reads or writes belongs to root.
other_user() {
	local uid
	lab_edge_stop a
	mkdir -p "$LAB_SHM/a"
	chmod 711 "$LAB_DIR" "$LAB_DIR/keys"
	chown -R nobody "$LAB_DIR/a" "$LAB_DIR/keys/a" "$LAB_SHM/a"
	LAB_DAEMON_ARGS="--user nobody" lab_edge_start a
	lab_link_up || return
	uid=$(status_of "$(lab_edge_child a)" Uid)
	[ "$uid" = "$(id -u nobody)" ] || why "its user is $uid" || return
	child_has_nothing a && traffic || return
	lab_client a reload >"$LAB_DIR/reload.out" 2>&1 || why "reload: $(cat "$LAB_DIR/reload.out")" || return
	child_is_replaced
}

# As in the unit: neither process has ever been root.
never_root() {
	lab_edge_stop a
	lab_daemon_under setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=+net_admin,+net_bind_service,+net_raw \
		--ambient-caps=+net_admin,+net_bind_service,+net_raw --bounding-set=-all,+net_admin,+net_bind_service,+net_raw --no-new-privs
	lab_edge_start a
	lab_daemon_alone
	lab_link_up || return
	[ "$(status_of "${LAB_EDGE_PID[a]}" Uid)" = 65534 ] || why "the parent is root" || return
	child_has_nothing a && traffic || return
	lab_in ea nft flush ruleset
	lab_wait 3 tables_are_back || why "the rules do not come back" || return
	child_is_replaced
}

tables_are_back() {
	lab_in ea nft list ruleset | grep -q longreach_link
}

# A user who cannot read the key is told which file it is.
unreadable_key() {
	lab_edge_stop a
	chown root "$LAB_DIR/keys/a/link.key"
	LAB_DAEMON_ARGS="--user nobody" lab_edge_start a
	lab_wait 5 grep -q 'link.key' "$LAB_DIR/a/log" || why "nothing about it in the log" || return
	NOTE=$(grep -o '[^ ]*link.key.*' "$LAB_DIR/a/log" | tail -1)
	lab_edge_stop a
	chown -R root "$LAB_DIR/a" "$LAB_DIR/keys/a" "$LAB_SHM/a"
	lab_edge_start a
	lab_link_up
}

no_such_user() {
	! lab_in ea "$LAB_BIN/longreachd" --user nobody-at-all --control "$LAB_DIR/none" --config-dir "$LAB_DIR/a" \
		>"$LAB_DIR/out" 2>&1 || why "it started" || return
	grep -q 'no such user' "$LAB_DIR/out" || why "$(cat "$LAB_DIR/out")"
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 100
lab_server $B_HOST
lab_edges
check "the link comes up" lab_link_up
check "the child has no capability" child_has_nothing a
check "nor has any of its threads" threads_have_nothing
check "the parent has four" parent_has_four a
check "memory for keys is locked" keys_are_locked
check "traffic" traffic
check "a child that crashes is replaced" child_is_replaced
check "the next one has no capability either" child_has_nothing a
check "nobody has its ports meanwhile" ports_stay_taken
check "the next one has them, though it could not start at first" child_starts_late
check "a child that always crashes ends the parent" gives_up
check "a child dies with its parent" child_dies_with_parent
check "nobody reads the log" log_is_gone
check "another user" other_user
check "a user who has never been root, with three capabilities" never_root
check "another user who cannot read the key" unreadable_key
check "a user who is not there" no_such_user
check_end
