#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The relay with real daemons: programs put and get files at the other site, daemons and programs are killed.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

MIB=$((1 << 20))

relay() { # a|b command...: the socket is a file
	local edge=$1
	shift
	LONGREACH_RELAY="$LAB_DIR/$edge.relay" timeout 300 "$LAB_BIN/longreach" "$@"
}

# In the background: the region's provider. Its pid in $PROVIDER.
provide() { # a|b REGION file access
	LONGREACH_RELAY="$LAB_DIR/$1.relay" "$LAB_BIN/longreach" export "link:$2" --file "$3" --access "$4" >>"$LAB_DIR/notices" 2>>"$LAB_DIR/export.err" &
	PROVIDER=$!
	PROVIDERS+=" $!"
	lab_wait 5 is_there "$1" "$2" || why "$2 is not exported: $(tail -1 "$LAB_DIR/export.err")"
}

is_there() { # a|b REGION
	relay "$1" regions link 2>/dev/null | grep -q "^$2 "
}

end_providers() {
	local p
	for p in $PROVIDERS; do kill "$p" 2>/dev/null; done
	PROVIDERS=
}

random_file() { # file bytes
	head -c "$2" /dev/urandom >"$1"
}

start_edges() {
	lab_edges
	lab_link_up || why "the link does not come up" || return
	lab_wait 5 relay a regions link >/dev/null || why "no relay at a"
}

same() { # file file
	cmp "$1" "$2" >"$LAB_DIR/cmp" 2>&1 || why "$(head -1 "$LAB_DIR/cmp")"
}

empty() {
	[ "$(lab_status "$1" '[.links[0].buffer[].used_bytes] | add')" = 0 ]
}

put_and_get() {
	random_file "$LAB_DIR/src" $((64 * MIB))
	truncate -s $((64 * MIB)) "$LAB_DIR/dst"
	provide b target "$LAB_DIR/dst" rw || return
	relay a put "$LAB_DIR/src" link:target --notice "it is there" --promise 'done' --json >"$LAB_DIR/put.out" 2>&1 ||
		why "put: $(tail -1 "$LAB_DIR/put.out")" || return
	same "$LAB_DIR/src" "$LAB_DIR/dst" || return
	grep -q "^target+0 $((64 * MIB)) it is there" "$LAB_DIR/notices" || why "no notice: $(cat "$LAB_DIR/notices")" || return
	relay a get link:target "$LAB_DIR/back" >"$LAB_DIR/get.out" 2>&1 || why "get: $(tail -1 "$LAB_DIR/get.out")" || return
	same "$LAB_DIR/src" "$LAB_DIR/back" || return
	NOTE="$(jq -r '(.bytes * 8 / .seconds / 1e9 * 1000 | floor / 1000 | tostring) + " Gbit/s put"' "$LAB_DIR/put.out"), $(sed 's/.* s, //' "$LAB_DIR/get.out") get, of $LAB_RATE"
}

refused() { # text command...
	local text=$1
	shift
	relay a "$@" >"$LAB_DIR/refused" 2>&1 && { why "$* was done"; return; }
	grep -q "$text" "$LAB_DIR/refused" || why "$*: $(tail -1 "$LAB_DIR/refused")"
}

errors_are_exact() {
	random_file "$LAB_DIR/small" 5000
	truncate -s 4000 "$LAB_DIR/tiny"
	provide b reader "$LAB_DIR/small" r
	provide b tiny "$LAB_DIR/tiny" rw
	refused "no such region" put "$LAB_DIR/small" link:nowhere --promise 'done'
	refused "expected a regular file" put /proc/version link:tiny --promise 'done' || return
	refused "expected a regular file" put /dev/null link:tiny --promise 'done' || return
	random_file "$LAB_DIR/x" 6000
	refused "no such region" get link:nowhere "$LAB_DIR/x"
	[ "$(stat -c %s "$LAB_DIR/x")" = 6000 ] || why "a get of no region emptied the file" || return
	relay a get link:tiny "$LAB_DIR/x" >"$LAB_DIR/get.out" 2>&1 || why "get: $(tail -1 "$LAB_DIR/get.out")" || return
	same "$LAB_DIR/tiny" "$LAB_DIR/x" || return
	refused "does not allow" put "$LAB_DIR/small" link:reader --promise 'done'
	refused "beyond the end" put "$LAB_DIR/small" link:tiny --promise 'done'
	refused "beyond the end" get link:tiny+4001 "$LAB_DIR/x"
	truncate -s 100 "$LAB_DIR/small"
	refused "cannot read or write the region" get link:reader "$LAB_DIR/x"
}

# Many pieces in one put and one get, and a piece that leaves the region.
vectors() {
	truncate -s $((4 * MIB)) "$LAB_DIR/vector"
	provide b vector "$LAB_DIR/vector" rw || return
	NOTE=$(LONGREACH_RELAY="$LAB_DIR/a.relay" timeout 20 "$LAB_TOOLS/vector" link:vector $((4 * MIB)) 256 2>&1) || why "$NOTE" || return
	grep -q "^vector+0 $((4 * MIB)) vector" "$LAB_DIR/notices" || why "no notice: $(tail -1 "$LAB_DIR/notices")" || return
	LONGREACH_RELAY="$LAB_DIR/a.relay" timeout 20 "$LAB_TOOLS/vector" link:vector $((4 * MIB + 1)) 7 >"$LAB_DIR/vector.err" 2>&1 &&
		{ why "a piece beyond the end was put"; return; }
	grep -q "beyond the end" "$LAB_DIR/vector.err" || why "$(cat "$LAB_DIR/vector.err")"
}

# After an orderly stop.
owes() { # a|b
	lab_in "e$1" "$LAB_BIN/longreachd" --owed --config-dir "$LAB_DIR/$1" >"$LAB_DIR/owed" 2>&1
	grep -q 'link.0.arena' "$LAB_DIR/owed"
}

# A put with promise near is in the buffer and survives its daemon.
near_promise_outlives_its_daemon() {
	random_file "$LAB_DIR/src2" $MIB
	truncate -s $MIB "$LAB_DIR/dst2"
	provide b second "$LAB_DIR/dst2" w
	lab_line_ctl cut
	relay a put "$LAB_DIR/src2" link:second --notice "late" --promise near >"$LAB_DIR/put2" 2>&1 ||
		why "put: $(tail -1 "$LAB_DIR/put2")" || return
	lab_edge_stop a
	owes a || why "--owed does not name the buffer: $(cat "$LAB_DIR/owed")" || return
	lab_edge_start a
	lab_wait 5 lab_client a status >/dev/null
	lab_edge_stop a KILL
	lab_edge_start a
	lab_wait 5 lab_client a status >/dev/null
	lab_line_ctl uncut
	lab_wait 20 grep -q "^second+0 .* late" "$LAB_DIR/notices" || why "the notice does not come" || return
	same "$LAB_DIR/src2" "$LAB_DIR/dst2"
}

put_goes_on_after_the_far_daemon() {
	random_file "$LAB_DIR/src3" $((48 * MIB))
	truncate -s $((48 * MIB)) "$LAB_DIR/dst3"
	provide b third "$LAB_DIR/dst3" rw
	relay a put "$LAB_DIR/src3" link:third --promise 'done' >"$LAB_DIR/put3" 2>&1 &
	local put=$!
	sleep 0.6
	lab_edge_stop b KILL
	lab_edge_start b
	wait $put || why "put: $(tail -1 "$LAB_DIR/put3")" || return
	same "$LAB_DIR/src3" "$LAB_DIR/dst3"
	NOTE=$(tail -1 "$LAB_DIR/put3")
}

# get_over_a_kill REGION FILE: a get of the region, which is that file, goes on after a kill of the far daemon.
get_over_a_kill() {
	relay a get "link:$1" "$LAB_DIR/back" >"$LAB_DIR/get" 2>&1 &
	local get=$!
	sleep 0.6
	lab_edge_stop b KILL
	lab_edge_start b
	wait $get || why "get: $(tail -1 "$LAB_DIR/get")" || return
	same "$2" "$LAB_DIR/back"
	NOTE=$(tail -1 "$LAB_DIR/get")
}

get_goes_on_after_the_far_daemon() {
	get_over_a_kill third "$LAB_DIR/dst3"
}

# The near daemon starts after the far daemon's hello: it must still notice the far daemon's next start.
get_goes_on_when_both_started_again() {
	lab_edge_stop a KILL
	lab_edge_start a
	lab_link_up || why "the link does not come up" || return
	lab_wait 5 relay a regions link >/dev/null || why "no relay at a" || return
	truncate -s $((192 * MIB)) "$LAB_DIR/large" # more than a buffer holds
	provide b large "$LAB_DIR/large" r || return
	get_over_a_kill large "$LAB_DIR/large"
}

killed_program_leaves_nothing() {
	relay a put "$LAB_DIR/src3" link:third >/dev/null 2>&1 &
	local put=$!
	sleep 0.3
	kill -KILL $put
	wait $put 2>/dev/null
	end_providers
	lab_wait 20 empty a || why "a still holds $(lab_status a '[.links[0].buffer[].used_bytes] | add') bytes" || return
	lab_wait 20 empty b || why "b still holds $(lab_status b '[.links[0].buffer[].used_bytes] | add') bytes" || return
	[ "$(relay b regions link | wc -l)" = 1 ] || why "regions are left: $(relay b regions link)"
}

rate_is_told() {
	relay a rate link --bytes 1GB --json >"$LAB_DIR/rate.out" 2>&1 || why "$(cat "$LAB_DIR/rate.out")" || return
	jq -e '.line_bps > 0 and .free_bps > 0 and .free_bps <= .line_bps and .expected_s > 0' "$LAB_DIR/rate.out" >/dev/null ||
		why "$(cat "$LAB_DIR/rate.out")"
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 300
LAB_MODE=near
LAB_EXTRA="Relay.Enable=yes"
LAB_EXTRA_A="Relay.Socket=$LAB_DIR/a.relay"
LAB_EXTRA_B="Relay.Socket=$LAB_DIR/b.relay"
lab_watch_line
check "edges with a relay come up" start_edges
check "64 MiB put with a notice, and got back, at 300 km" put_and_get
check "errors name their cause" errors_are_exact
check "256 pieces in one put, and in one get" vectors
check "put promised near outlives its daemon" near_promise_outlives_its_daemon
check "put goes on over kill -9 of the far daemon" put_goes_on_after_the_far_daemon
check "get goes on over kill -9 of the far daemon" get_goes_on_after_the_far_daemon
check "get goes on when both daemons started again, one by one" get_goes_on_when_both_started_again
check "a program that was killed leaves nothing" killed_program_leaves_nothing
check "rate" rate_is_told
check_end
