#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Losses are reported: buffers with acknowledged bytes that are damaged, left over or lost, and the edges' reports of it.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

ARENA=link.0.arena

hosts_send() { [ "$(lab_status a '.links[0].counters.lan_rx_packets // 0')" -gt 1000 ]; }

# Acknowledged bytes are in the buffer of edge a, which is dead; the line is cut.
bytes_held_by_the_dead() {
	LAB_MODE=near
	lab_line_ctl uncut 2>/dev/null # a failed test has left it cut
	lab_relink 300 || return
	lab_load --size 65536 --depth 16 --qps 2 && lab_wait 5 hosts_send || why "no host sends" || return
	lab_line_ctl cut
	lab_wait 3 enough_is_held || why "only $HELD bytes are held"
	{ lab_edge_stop a KILL; } 2>/dev/null
	lab_load_end TERM 2>/dev/null
	[ -z "$WHY" ]
}

# A window of each queue pair.
enough_is_held() {
	HELD=$(lab_status a '.links[0].buffer.from_lan.used_bytes')
	[ "${HELD:-0}" -gt 1000000 ]
}

nothing_is_held() {
	[ "$(lab_status a '[.links[0].buffer[].used_bytes] | add')" = 0 ]
}

zero_bytes() { # file offset
	dd if=/dev/zero of="$1" bs=1 count=8 seek="$2" conv=notrunc status=none
}

said_set_aside() {
	[ "$(lab_status a '.links[0].events.arena_set_aside')" = 1 ] || why "no event arena_set_aside" || return
	grep -q 'The file was set aside as' "$LAB_DIR/a/log" || why "the log does not say it" || return
	[ "$(lab_status a '.stray_buffers | map(select(.kind == "set_aside")) | length')" = 1 ] ||
		why "status does not name it" || return
	lab_client a status | grep -q 'was set aside' || why "the table does not name it"
}

# Zeroes eight bytes of the file's identification. Bytes that hosts believe delivered must stay in the file.
damaged() { # offset from the beginning, or from the end if negative
	local file at=$1 before
	bytes_held_by_the_dead || return
	file=$LAB_SHM/a/$ARENA
	[ $at -ge 0 ] || at=$(($(stat -c %s "$file") + at))
	zero_bytes "$file" $at
	before=$(md5sum <"$file")
	lab_edge_start a
	lab_line_ctl uncut
	lab_link_up || return
	[ -s "$file" ] || why "no new buffer" || return
	[ "$(cat "$file".damaged-* 2>/dev/null | md5sum)" = "$before" ] || why "what was held is gone, or changed" || return
	said_set_aside || return
	! lab_client a status --check 2>"$LAB_DIR/check.err" || why "--check says that all is well" || return
	grep -q "$ARENA.damaged-" "$LAB_DIR/check.err" || why "--check does not name it" || return
	rm "$file".damaged-*
	lab_client a status --check || why "--check still fails when the file is removed" || return
	NOTE="$HELD bytes were held, and are kept"
}

# The link file gets another name: no link would ever drain the old link's buffer.
renamed() {
	local path
	bytes_held_by_the_dead || return
	path=$(lab_conf_path a)
	mv "$path" "$LAB_DIR/a/other.conf"
	LAB_CONF_NAME=other lab_edge_start a
	lab_line_ctl uncut
	lab_link_up || return
	grep -q "$ARENA: holds packets that hosts believe delivered" "$LAB_DIR/a/log" || why "the log is silent" || return
	[ "$(lab_status a '.stray_buffers[0].kind')" = unclaimed ] || why "status is silent" || return
	! lab_client a status --check 2>"$LAB_DIR/check.err" || why "--check says that all is well" || return
	grep -q "put the link file link.conf back" "$LAB_DIR/check.err" || why "--check does not say what to do" || return
	lab_client a reload | grep -q "$ARENA: holds packets" || why "reload is silent" || return
	lab_edge_stop a
	lab_edge_start a
	lab_link_up || return
	lab_client a status --check || why "--check fails though the file has its name back" || return
	NOTE="$HELD bytes were held"
}

# The near edge comes back without its buffer: both edges report it, and name the queue pairs of the lost buffer. The hosts have
# given up by then.
near_buffer_gone() {
	lab_edges_stop
	rm -f "$LAB_DIR/b/failed" # of the tests before
	bytes_held_by_the_dead || return
	rm "$LAB_SHM/a/$ARENA"
	lab_edge_start a
	lab_line_ctl uncut
	lab_link_up || return
	lab_wait 5 both_say_it || return
	NOTE="$HELD bytes were lost; $NAMED queue pairs are named"
}

# The alert rule looks at events of both edges: each edge's Prometheus may be another.
alert_fires() {
	local events at
	events=$(sed -n 's/.*event=~"\(buffer_lost[a-z_|]*\)".*/\1/p' "${BASH_SOURCE[0]%/*}/../../etc/prometheus/longreach.rules.yml" | head -1)
	[ -n "$events" ] || why "no alert rule looks at buffer_lost" || return
	for at in a b; do
		[ "$(lab_status $at "[.links[0].events[\"${events//|/\",\"}\"]] | add")" -gt 0 ] ||
			why "edge $at has none of the events $events, which the alert looks at" || return
	done
}

both_say_it() {
	[ "$(lab_status a '.links[0].events.buffer_lost')" = 1 ] || why "edge a does not say that its buffer is lost" || return
	grep -q 'this edge came back without its buffer' "$LAB_DIR/a/log" || why "the log of edge a is silent" || return
	NAMED=$(lab_client b failed --json |
		jq '.failed | map(select(.reason == "perhaps_lost" or .reason == "buffer_lost") | .dest_qpn) | unique | length')
	[ "$NAMED" = 2 ] || why "edge b names $NAMED queue pairs, not 2" || return
	alert_fires
}

# Edge a is killed again before its hello could report the lost buffer, and edge b is restarted meanwhile: both edges report the
# loss all the same.
near_buffer_gone_twice() {
	lab_edges_stop
	rm -f "$LAB_DIR/b/failed"
	bytes_held_by_the_dead || return
	rm "$LAB_SHM/a/$ARENA"
	lab_edge_start a
	lab_wait 5 test -s "$LAB_SHM/a/$ARENA" || why "edge a made no buffer" || return
	lab_wait 5 lab_client a status || why "edge a does not answer" || return
	{ lab_edge_stop a KILL; } 2>/dev/null
	{ lab_edge_stop b KILL; } 2>/dev/null
	lab_edge_start b
	lab_edge_start a
	lab_line_ctl uncut
	lab_link_up || return
	lab_wait 5 both_say_it || return
	NOTE="$HELD bytes were lost; $NAMED queue pairs are named"
}

# A buffer that had drained is no loss.
near_buffer_drained() {
	lab_edges_stop
	LAB_MODE=near
	lab_relink 30 || return
	lab_rcperf --secs 1 --qps 2 || why "no traffic" || return
	lab_wait 5 nothing_is_held || why "the buffer does not drain" || return
	lab_edge_stop a
	lab_edge_start a
	lab_link_up || return
	sleep 1
	[ "$(lab_status a '.links[0].events.buffer_lost')" = 0 ] || why "edge a speaks of a loss" || return
	[ "$(lab_status b '.links[0].events | .flow_in_doubt + .flow_failed')" = 0 ] || why "edge b speaks of a loss"
}

QPS=300
# The responder of many queue pairs answers no more: each failed flow is named, also after a restart.
thousand_failed() {
	local pid server
	lab_edges_stop
	LAB_MODE=near LAB_EXTRA=Tuning.GiveUp=1s
	lab_relink 30 || return
	LAB_EXTRA=
	LAB_PATIENCE=300 lab_rcperf --qps $QPS --cm --size 1024 --mtu 1024 --depth 2 --secs 300 &
	pid=$!
	lab_wait 20 all_paired $QPS || why "not all queue pairs are paired" || return
	server="$LAB_SERVER_PIDS $(lab_children $LAB_SERVER_PIDS)"
	kill -STOP $server # if it died, its requesters would end with their TCP connections, some with nothing outstanding
	lab_wait 15 failed_named $QPS || why "only $NAMED of $QPS flows are named" || return
	{ kill -9 $server; } 2>/dev/null
	wait $LAB_SERVER_PIDS 2>/dev/null
	LAB_SERVER_PIDS=
	kill $(lab_children $pid) 2>/dev/null
	wait $pid 2>/dev/null
	[ "$(grep -c '\[flow_failed\]' "$LAB_DIR/b/log")" -lt 100 ] || why "the log is flooded" || return
	[ "$(lab_client b failed | wc -l)" = "$(lab_client b failed --json | jq '.failed | length')" ] ||
		why "the table has other lines" || return
	{ lab_edge_stop b KILL; } 2>/dev/null
	lab_edge_start b
	lab_link_up || return
	failed_named $QPS || why "after a restart only $NAMED are named"
}

all_paired() { # queue pairs
	[ "$(lab_client b status --flows --json | jq '[.links[0].flows[] | select(.pairing == "paired")] | length')" -ge "$1" ]
}

failed_named() { # queue pairs
	NAMED=$(lab_client b failed --json |
		jq '.failed | map(select(.reason == "silent" and .side == "far" and .requester_qpn > 0) | .dest_qpn) | unique | length')
	[ "$NAMED" -ge "$1" ]
}

lab_up
lab_line --rate $LAB_LINE_RATE
lab_server $B_HOST
check "a buffer whose superblock is damaged is set aside" damaged 0
check "a buffer whose trailer is damaged is set aside" damaged $((-2 << 20))
check "a renamed link file leaves no buffer behind in silence" renamed
check "a near edge without its buffer is loud at both edges" near_buffer_gone
check "a near edge killed again before it could tell is as loud" near_buffer_gone_twice
check "a buffer that had drained is no loss" near_buffer_drained
check "$QPS queue pairs that fail together are named" thousand_failed
check_end
