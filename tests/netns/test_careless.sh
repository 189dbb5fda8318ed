#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Careless administration: options that name a wrong file, limits, owners of keys.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

# The links do without metrics, and not without a control socket.
keeps_the_file() { # option status; 124: it runs until it is told to end
	local file=$LAB_DIR/precious
	echo precious >"$file"
	lab_conf a >"$LAB_DIR/alone.conf"
	lab_in ea timeout 3 "$LAB_BIN/longreachd" --control "$LAB_DIR/alone.control" --config "$LAB_DIR/alone.conf" \
		"$1" "$file" >"$LAB_DIR/alone.log" 2>&1
	[ $? = "$2" ] || why "it started, or ended otherwise: $(tail -1 "$LAB_DIR/alone.log")" || return
	[ "$(cat "$file" 2>/dev/null)" = precious ] || why "the file is gone" || return
	NOTE=$(grep -o 'exists and is no socket.*' "$LAB_DIR/alone.log")
	[ -n "$NOTE" ] || why "it says: $(tail -1 "$LAB_DIR/alone.log")"
}

# Leftovers of a killed daemon do not prevent a start.
stale_socket() {
	{ lab_edge_stop a KILL; } 2>/dev/null
	[ -S "$LAB_DIR/a/control" ] || why "no socket is left" || return
	lab_edge_start a
	lab_link_up
}

idle_connections() {
	local pids= i
	LAB_DAEMON_ARGS="--metrics $LAB_DIR/metrics"
	lab_edge_stop a
	lab_edge_start a
	LAB_DAEMON_ARGS=
	lab_link_up || return
	for i in 1 2 3 4 5 6 7 8 9 10; do
		socat -u "UNIX-CONNECT:$LAB_DIR/metrics" - >/dev/null 2>&1 &
		pids="$pids $!"
	done
	sleep 0.5
	printf 'GET /metrics HTTP/1.0\r\n\r\n' | socat -t 30 - "UNIX-CONNECT:$LAB_DIR/metrics" >"$LAB_DIR/scrape" 2>&1
	kill $pids 2>/dev/null
	wait $pids 2>/dev/null
	grep -q '^longreach_link_state{' "$LAB_DIR/scrape" || why "no answer beside idle connections"
}

open_files_of_a() {
	awk '/^Max open files/ { print $4 }' "/proc/$(lab_edge_child a)/limits"
}

# 64 lanes of 8 source ports: 512 sockets, and all other descriptors.
limit_is_raised() {
	lab_daemon_under prlimit --nofile=256:
	lab_edge_stop a
	LAB_EXTRA_A=Path.SourcePorts=8 lab_edge_start a
	lab_daemon_alone
	lab_link_up || return
	NOTE="$(open_files_of_a) open files"
	[ "$(open_files_of_a)" -ge 768 ] || why "$NOTE"
}

limit_that_stays() {
	lab_edge_stop a
	lab_daemon_under prlimit --nofile=256:256 setpriv --bounding-set -sys_resource --inh-caps=-sys_resource
	LAB_EXTRA_A=Path.SourcePorts=8 lab_edge_start a
	lab_daemon_alone
	lab_wait 5 eval '[ "$(lab_status a ".links[0].state")" = failed ]' || why "$(lab_status a '.links[0].state')" || return
	NOTE=$(lab_status a '.links[0].error' | cut -c1-110)
	[[ "$NOTE" = *"open files, and the limit of 256 cannot be raised"* ]] || why "$NOTE" || return
	lab_edge_stop a
	lab_edge_start a
	lab_link_up
}

key_of_somebody() {
	chown 65534 "$LAB_DIR/keys/a/link.key"
	! lab_client a reload >"$LAB_DIR/reload.out" 2>&1 || why "a key that belongs to nobody was taken" || return
	chown 0 "$LAB_DIR/keys/a/link.key"
	NOTE=$(grep -o 'belongs to user.*' "$LAB_DIR/reload.out")
	[ -n "$NOTE" ] || why "it says: $(head -1 "$LAB_DIR/reload.out")" || return
	lab_client a reload >"$LAB_DIR/reload.out" 2>&1 || why "$(head -1 "$LAB_DIR/reload.out")"
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 30
check "--metrics with the path of a file leaves the file alone" keeps_the_file --metrics 124
lab_edges
check "--control with the path of a file leaves the file alone" keeps_the_file --control 1
check "the socket of a killed daemon is replaced" stale_socket
check "idle connections do not keep a scrape out" idle_connections
check "the limit of open files is raised" limit_is_raised
check "if it cannot be, the link says so" limit_that_stays
check "a key that belongs to another user is refused" key_of_somebody
check_end
