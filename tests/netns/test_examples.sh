#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The programs of examples/ with real daemons. Site A is a GPU host that runs the daemon itself: no host is behind its
# LanPort=. Site B is an edge at the border. fakecuda simulates the GPUs.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

MIB=$((1 << 20))
FAKE=${LAB_GPU:-$LAB_TOOLS/fakecuda} # LAB_GPU: as in test_gpu.sh
EXAMPLES=$LAB_BUILD/examples
RECEIVER=

at() { # a|b command...: a program beside that edge, on a machine with a GPU. Replaces the shell.
	local edge=$1
	shift
	exec env LD_LIBRARY_PATH="$FAKE" FAKECUDA_DIR="$LAB_SHM/gpu" FAKECUDA_DEVICES="${DEVICES:-1}" \
		LONGREACH_RELAY="$LAB_DIR/$edge.relay" "$@"
}

is_there() { # a|b REGION
	(at "$1" "$LAB_BIN/longreach" regions link) 2>/dev/null | grep -q "^$2 "
}

refused() { # words command...: status 1, and stderr has the words
	local words=$1 status
	shift
	(at "$@") >"$LAB_DIR/refused" 2>&1
	status=$?
	[ $status = 1 ] || why "${*:2}: status $status: $(tail -1 "$LAB_DIR/refused")" || return
	grep -q "$words" "$LAB_DIR/refused" || why "${*:2}: $(tail -1 "$LAB_DIR/refused")"
}

start_edges() {
	mkdir -m 1777 "$LAB_SHM/gpu"
	mkdir "$LAB_DIR/out"
	lab_ip ha link del rdma0
	lab_ip ea link add lan0 type veth peer name lan0-end
	lab_ip ea addr add 10.101.1.1/24 dev lan0
	lab_ip ea link set lan0 up
	lab_ip ea link set lan0-end up
	lab_daemon_under env "LD_LIBRARY_PATH=$FAKE" "FAKECUDA_DIR=$LAB_SHM/gpu"
	lab_edges
	lab_link_up || why "the link does not come up" || return
	lab_wait 5 is_reached a || why "no relay at a" || return
	lab_wait 5 is_reached b || why "no relay at b"
}

is_reached() { # a|b
	(at "$1" "$LAB_BIN/longreach" regions link) >/dev/null 2>&1
}

# An odd length: only a part of the last number is there.
gpu_buffer() {
	local bytes=$((8 * MIB + 3)) provider
	truncate -s $bytes "$LAB_DIR/numbers"
	at b "$LAB_BIN/longreach" export link:numbers --file "$LAB_DIR/numbers" --access w >/dev/null 2>"$LAB_DIR/export.err" &
	provider=$!
	lab_wait 5 is_there b numbers || why "not exported: $(tail -1 "$LAB_DIR/export.err")" || return
	(at a timeout 40 "$EXAMPLES/put_gpu" link numbers $bytes) >"$LAB_DIR/put" 2>&1 || why "$(tail -1 "$LAB_DIR/put")" || return
	perl -e 'my $n = shift; print substr(pack("V*", 0 .. $n / 4), 0, $n)' $bytes | cmp - "$LAB_DIR/numbers" >"$LAB_DIR/cmp" 2>&1 ||
		why "$(head -1 "$LAB_DIR/cmp")" || return
	refused "beyond the end" a timeout 40 "$EXAMPLES/put_gpu" link numbers $((bytes + 1)) || return
	kill $provider
	wait $provider 2>/dev/null
	[ ! -e "$LAB_SHM/gpu/misuse" ] || why "misuse: $(head -1 "$LAB_SHM/gpu/misuse")"
}

gpu_errors() {
	refused "no such region" a timeout 40 "$EXAMPLES/put_gpu" link nowhere 4096 || return
	refused "lr_open: No such file" a env LONGREACH_RELAY="$LAB_DIR/none" timeout 40 "$EXAMPLES/put_gpu" link nowhere 4096 || return
	[ -z "${LAB_GPU:-}" ] || return 0
	DEVICES=0 refused "cuInit: CUDA_ERROR_NO_DEVICE" a timeout 40 "$EXAMPLES/put_gpu" link nowhere 4096 || return
	refused "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY" a env FAKECUDA_FAIL=cuMemAlloc:2 timeout 40 "$EXAMPLES/put_gpu" link nowhere 4096
}

receive() { # most
	at b timeout 300 "$EXAMPLES/push_checkpoint" receive link "$LAB_DIR/out/checkpoint" "$1" >"$LAB_DIR/received" 2>&1 &
	RECEIVER=$!
	lab_wait 5 is_there b checkpoint || why "no region: $(tail -1 "$LAB_DIR/received")"
}

pushed() { # file
	(at a timeout 60 "$EXAMPLES/push_checkpoint" send link "$1") >"$LAB_DIR/sent" 2>&1 || why "send: $(tail -1 "$LAB_DIR/sent")" || return
	wait $RECEIVER || why "receive: $(tail -1 "$LAB_DIR/received")" || return
	cmp "$1" "$LAB_DIR/out/checkpoint" >"$LAB_DIR/cmp" 2>&1 || why "$(head -1 "$LAB_DIR/cmp")" || return
	[ "$(ls "$LAB_DIR/out")" = checkpoint ] || why "left: $(ls "$LAB_DIR/out")" || return
	[ "$(cut -d' ' -f2 "$LAB_DIR/sent")" = "$(sed 's/.* //' "$LAB_DIR/received")" ] || why "$(cat "$LAB_DIR/sent" "$LAB_DIR/received")"
}

checkpoint() {
	head -c $((8 * MIB + 5)) /dev/urandom >"$LAB_DIR/src"
	receive $((16 * MIB)) && pushed "$LAB_DIR/src" || return
	: >"$LAB_DIR/nothing"
	receive 4096 && pushed "$LAB_DIR/nothing"
}

bytes_have_come() {
	[ "$(stat -c %b "$LAB_DIR"/out/checkpoint.??????)" -gt 0 ]
}

# The receiver exports the same file to the next daemon, and the put goes on. At the rate of edge a it lasts for a minute, until
# the kill is done.
checkpoint_over_a_kill() {
	head -c $((32 * MIB)) /dev/urandom >"$LAB_DIR/src"
	receive $((32 * MIB)) || return
	lab_set_rate a 5M || why "$(head -1 "$LAB_DIR/reload.out")" || return
	(at a timeout 300 "$EXAMPLES/push_checkpoint" send link "$LAB_DIR/src") >"$LAB_DIR/sent" 2>&1 &
	local sender=$!
	lab_wait 5 bytes_have_come || why "no bytes came" || return
	lab_edge_stop b KILL
	kill -0 $sender 2>/dev/null || why "the put was over too soon" || return
	lab_set_rate a "$LAB_RATE" || why "$(head -1 "$LAB_DIR/reload.out")" || return
	lab_edge_start b
	wait $sender || why "send: $(tail -1 "$LAB_DIR/sent")" || return
	wait $RECEIVER || why "receive: $(tail -1 "$LAB_DIR/received")" || return
	cmp "$LAB_DIR/src" "$LAB_DIR/out/checkpoint" >"$LAB_DIR/cmp" 2>&1 || why "$(head -1 "$LAB_DIR/cmp")"
}

# A notice with a wrong checksum, as from a file that changes while it is sent: FILE stays unchanged.
checkpoint_that_differs() {
	receive $((32 * MIB)) || return
	(at a timeout 40 "$LAB_BIN/longreach" put "$LAB_DIR/src" link:checkpoint --promise 'done' \
		--notice "$((32 * MIB)) 0123456789abcdef") >"$LAB_DIR/put" 2>&1 || why "put: $(tail -1 "$LAB_DIR/put")" || return
	wait $RECEIVER && { why "it was taken"; return; }
	grep -q "the checksum differs" "$LAB_DIR/received" || why "$(tail -1 "$LAB_DIR/received")" || return
	[ "$(ls "$LAB_DIR/out")" = checkpoint ] || why "left: $(ls "$LAB_DIR/out")"
}

checkpoint_errors() {
	refused "no such region" a timeout 40 "$EXAMPLES/push_checkpoint" send link "$LAB_DIR/src" || return
	receive 4096 || return
	refused "beyond the end" a timeout 40 "$EXAMPLES/push_checkpoint" send link "$LAB_DIR/src" || return
	refused "File exists" b timeout 40 "$EXAMPLES/push_checkpoint" receive link "$LAB_DIR/out/other" 4096 || return
	! ls "$LAB_DIR"/out/other* >/dev/null 2>&1 || why "left: $(ls "$LAB_DIR/out")" || return
	kill $RECEIVER
	wait $RECEIVER 2>/dev/null
	rm -f "$LAB_DIR"/out/checkpoint.*
}

# The two link files in docs/RELAY.md and in the manual are valid, and the same in both.
link_files() {
	local which
	mkdir "$LAB_DIR/doc"
	(umask 077; openssl rand -hex 32 >"$LAB_DIR/doc/key")
	for which in border host; do
		mkdir -p "$LAB_DIR/doc/$which"
		awk -v f="# $which" '$0 == "    " f { on = 1; next } on && !/^    / && !/^$/ { exit } on && /^    # / { exit }
			on { sub(/^    /, ""); print }' "$LAB_ROOT/docs/RELAY.md" >"$LAB_DIR/doc/$which/link.conf"
		awk -v f="# $which" '$0 == f { on = 1; next } on && (/^\./ || /^# /) { exit } on { print }' \
			"$LAB_ROOT/etc/man/liblongreach.3" | grep . >"$LAB_DIR/doc/$which/man"
		grep . "$LAB_DIR/doc/$which/link.conf" | cmp -s - "$LAB_DIR/doc/$which/man" || why "$which: the manual prints another file" || return
		sed -i "s|^PSKFile=.*|PSKFile=$LAB_DIR/doc/key|" "$LAB_DIR/doc/$which/link.conf"
		"$LAB_BIN/longreachd" --check-config --offline "$LAB_DIR/doc/$which/link.conf" >"$LAB_DIR/doc/said" 2>&1 ||
			why "$which: $(head -1 "$LAB_DIR/doc/said")" || return
	done
	grep -q "^GPU=yes" "$LAB_DIR/doc/host/link.conf" || why "no file of the host"
}

lab_up
lab_line --rate "$LAB_LINE_RATE" --km 50
LAB_MODE=host
LAB_EXTRA="Relay.Enable=yes"
LAB_EXTRA_A="Relay.Socket=$LAB_DIR/a.relay Relay.GPU=yes"
LAB_EXTRA_B="Relay.Socket=$LAB_DIR/b.relay"
lab_watch_line
check "link files of both deployments, as they are documented" link_files
check "a daemon on a GPU host and one at the border come up" start_edges
check "put_gpu: a GPU buffer is in a file of the other site" gpu_buffer
check "put_gpu names what went wrong" gpu_errors
check "push_checkpoint: told, verified, renamed; an empty one too" checkpoint
check "push_checkpoint goes on over kill -9 of the far daemon" checkpoint_over_a_kill
check "push_checkpoint refuses what differs" checkpoint_that_differs
check "push_checkpoint names what went wrong" checkpoint_errors
check_end
