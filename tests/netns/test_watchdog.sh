#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Notifications for systemd, tested with a socket in its place. A hanging worker must silence the watchdog.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

SYSTEMD_PID=

systemd_start() {
	socat -u "UNIX-RECV:$LAB_DIR/notify" "CREATE:$LAB_DIR/notified" &
	SYSTEMD_PID=$!
	lab_wait 2 test -S "$LAB_DIR/notify"
}

systemd_stop() {
	kill $SYSTEMD_PID 2>/dev/null
	wait $SYSTEMD_PID 2>/dev/null
}

fed() {
	grep -ao 'WATCHDOG=1' "$LAB_DIR/notified" | wc -l
}

fed_since() { # count
	[ "$(fed)" -ge "$1" ]
}

told_of() { # text
	grep -qa "$1" "$LAB_DIR/notified"
}

edges_under_watch() {
	systemd_start || why "no socket" || return
	lab_edge_start b
	NOTIFY_SOCKET=$LAB_DIR/notify WATCHDOG_USEC=900000 lab_edge_start a
	lab_wait 5 told_of READY=1 || why "not told that it is ready" || return
	told_of 'STATUS=1 link' || why "$(tr '\0' ' ' <"$LAB_DIR/notified")" || return
	lab_link_up
}

# Idle workers are asked, and answer.
idle_is_alive() {
	local before
	before=$(fed)
	lab_wait 3 fed_since $((before + 6)) || why "fed $(($(fed) - before)) times"
}

# ptrace stops one thread of a process.
worker_hangs() {
	local task tid before after
	task=$(grep -l '^lr:link:0' "/proc/$(lab_edge_child a)"/task/*/comm)
	task=${task%/comm}
	tid=${task##*/}
	perl -e '$p = 101; syscall($p, 16, $ARGV[0] + 0, 0, 0) == 0 or die $!; waitpid($ARGV[0], 0x40000000);
		open(F, ">", $ARGV[1]); close(F); select(undef, undef, undef, 0.05) until -e $ARGV[2];
		syscall($p, 17, $ARGV[0] + 0, 0, 0)' "$tid" "$LAB_DIR/held" "$LAB_DIR/let_go" &
	local holder=$!
	lab_wait 2 test -e "$LAB_DIR/held" || why "cannot stop a thread" || return
	lab_wait 3 grep -q 'a worker hangs' "$LAB_DIR/a/log" || why "the log says nothing"
	before=$(fed)
	sleep 2
	after=$(fed)
	touch "$LAB_DIR/let_go"
	wait $holder
	[ -z "$WHY" ] || return
	[ "$after" = "$before" ] || why "fed $((after - before)) times while a worker hung" || return
	lab_wait 3 fed_since $((after + 3)) || why "fed $(($(fed) - after)) times after it went on"
}

stopping() {
	lab_edge_stop a
	lab_wait 2 told_of STOPPING=1 || why "not told that it stops" || return
	systemd_stop
	lab_edge_stop b
}

# Restart=on-failure acts on the status alone.
loop_ends() {
	local status
	lab_daemon_under env "LD_PRELOAD=$LAB_TOOLS/loop_ends.so" "LOOP_ENDS_FILE=$LAB_DIR/loop.ends" \
		"ASAN_OPTIONS=\$ASAN_OPTIONS:verify_asan_link_order=0"
	lab_edge_start a
	lab_daemon_alone
	lab_wait 5 lab_client a status || why "it does not run" || return
	touch "$LAB_DIR/loop.ends"
	lab_wait 5 eval '! kill -0 '"${LAB_EDGE_PID[a]}" || why "it goes on" || return
	wait "${LAB_EDGE_PID[a]}"
	status=$?
	unset "LAB_EDGE_PID[a]"
	NOTE="status $status"
	[ $status = 1 ] || why "$NOTE" || return
	grep -q 'the event loop has ended without a signal' "$LAB_DIR/a/log" || why "the log says: $(tail -1 "$LAB_DIR/a/log")"
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 30
check "the daemon says that it is ready" edges_under_watch
check "an idle daemon feeds the watchdog" idle_is_alive
[ "$(uname -m)" = x86_64 ] && check "one whose worker hangs does not" worker_hangs
check "it says that it stops" stopping
check "one whose event loop ends by itself ends with an error" loop_ends
check_end
