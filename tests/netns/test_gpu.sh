#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Regions of GPU memory with real daemons, over fakecuda: GPU to GPU, each error with its own words, programs that are
# killed, a slow GPU beside other traffic.
#
# On a machine with a GPU: LAB_GPU=the folder of the driver's libcuda.so.1. Tests that need injected faults, or a GPU as slow as
# they like, are skipped there.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

MIB=$((1 << 20))
GPU_MIB=${FULL:+1024}
GPU_MIB=${GPU_MIB:-256}
FAKE=${LAB_GPU:-$LAB_TOOLS/fakecuda}
LONGREACH=$LAB_BIN/longreach

# Programs beside an edge, on a machine with a GPU.
relay() { # a|b command...
	local edge=$1
	shift
	env LD_LIBRARY_PATH="$FAKE" FAKECUDA_DIR="$LAB_SHM/gpu" LONGREACH_RELAY="$LAB_DIR/$edge.relay" \
		timeout 60 "$LONGREACH" "$@"
}

gpumem() { # a|b arguments...
	local edge=$1
	shift
	env LD_LIBRARY_PATH="$FAKE" FAKECUDA_DIR="$LAB_SHM/gpu" LONGREACH_RELAY="$LAB_DIR/$edge.relay" \
		timeout 300 "$LAB_TOOLS/gpumem" "$@"
}

end_program() { # signal pid: a function in the background, and what runs in it
	local pids
	pids=$(lab_children "$2")
	# shellcheck disable=SC2086
	kill "-$1" $pids 2>/dev/null
	wait "$2" 2>/dev/null
}

# Sets the faults of that edge's daemon from now on. fakecuda reads them once in a millisecond.
faults() { # a|b words
	echo "$2" >"$LAB_DIR/fake.new"
	mv "$LAB_DIR/fake.new" "$LAB_DIR/fake.$1"
	sleep 0.1
}

provide() { # a|b REGION options of longreach export... In the background; its pid in $PROVIDER.
	local edge=$1 region=$2
	shift 2
	env LD_LIBRARY_PATH="$FAKE" FAKECUDA_DIR="$LAB_SHM/gpu" LONGREACH_RELAY="$LAB_DIR/$edge.relay" \
		"$LONGREACH" export "link:$region" "$@" >>"$LAB_DIR/notices" 2>"$LAB_DIR/export.err" &
	PROVIDER=$!
	PROVIDERS+=" $!"
	lab_wait 10 is_there "$edge" "$region" || why "$region is not exported: $(tail -1 "$LAB_DIR/export.err")"
}

is_there() { # a|b REGION
	relay "$1" regions link 2>/dev/null | grep -q "^$2 "
}

end_providers() {
	local p
	for p in $PROVIDERS; do kill "$p" 2>/dev/null; done
	for p in $PROVIDERS; do wait "$p" 2>/dev/null; done
	PROVIDERS=
}

# Number of programs' memories that a daemon has open; with a real driver 1 if it has a context, which it has while it has any.
opened() { # a|b
	if [ -n "${LAB_GPU:-}" ]; then
		nvidia-smi --query-compute-apps=pid --format=csv,noheader | grep -c "^$(lab_edge_child "$1")$"
	else
		grep -c "$LAB_SHM/gpu/" "/proc/$(lab_edge_child "$1")/maps"
	fi
}

with_fakecuda() { # command...
	[ -z "${LAB_GPU:-}" ] || { NOTE="a real driver takes no injected faults"; return 77; }
	"$@"
}

holds_nothing() { # a|b
	[ "$(opened "$1")" = 0 ] && [ "$(lab_status "$1" '[.links[0].buffer[].used_bytes] | add')" = 0 ]
}

both_hold_nothing() {
	lab_wait 30 holds_nothing a || why "a still has $(opened a) pieces of GPU memory" || return
	lab_wait 30 holds_nothing b || why "b still has $(opened b) pieces of GPU memory" || return
	[ ! -e "$LAB_SHM/gpu/misuse" ] || why "misuse: $(head -1 "$LAB_SHM/gpu/misuse")"
}

same() { # file file
	cmp "$1" "$2" >"$LAB_DIR/cmp" 2>&1 || why "$(head -1 "$LAB_DIR/cmp")"
}

restart() { # a|b: a process that CUDA refuses
	lab_edge_stop "$1"
	lab_edge_start "$1"
	lab_link_up || why "the link does not come up" || return
	lab_wait 5 relay "$1" regions link >/dev/null || why "no relay at $1"
}

start_edges() {
	mkdir -m 1777 "$LAB_SHM/gpu"
	faults a "copy_us=300"
	faults b "copy_us=300"
	lab_daemon_under env "LD_LIBRARY_PATH=$FAKE" "FAKECUDA_DIR=$LAB_SHM/gpu" "FAKECUDA_CTL=$LAB_DIR/fake.\$LAB_EDGE"
	lab_edges
	lab_link_up || why "the link does not come up" || return
	lab_wait 5 relay a regions link >/dev/null || why "no relay at a"
}

gpu_to_gpu() {
	head -c $((GPU_MIB * MIB)) /dev/urandom >"$LAB_SHM/gpu.src"
	head -c $((256 * MIB)) "$LAB_SHM/gpu.src" >"$LAB_SHM/src"
	provide b target --gpu 0 --size $((GPU_MIB * MIB + 4096)) || return
	gpumem a put "$LAB_SHM/gpu.src" link:target >"$LAB_DIR/put" 2>&1 || why "put: $(tail -1 "$LAB_DIR/put")" || return
	NOTE="put $(cat "$LAB_DIR/put")"
	gpumem a get link:target "$LAB_SHM/back" $((GPU_MIB * MIB)) >"$LAB_DIR/get" 2>&1 ||
		why "get: $(tail -1 "$LAB_DIR/get")" || return
	NOTE+="; get $(sed 's/.* s, //' "$LAB_DIR/get"); line $LAB_RATE"
	same "$LAB_SHM/gpu.src" "$LAB_SHM/back" || return
	rm -f "$LAB_SHM/back" "$LAB_SHM/gpu.src"
	end_providers
	both_hold_nothing
}

# An allocation of cuMemCreate() comes to the daemon as a descriptor. Its size is no multiple of a GPU page.
mapped_memory() {
	head -c 5000001 "$LAB_SHM/src" >"$LAB_DIR/mapped"
	provide b target --gpu 0 --size 8MiB || return
	GPUMEM_VMM=1 gpumem a put "$LAB_DIR/mapped" link:target >"$LAB_DIR/put" 2>&1 || why "put: $(tail -1 "$LAB_DIR/put")" || return
	GPUMEM_VMM=1 gpumem a get link:target "$LAB_DIR/mapped.back" 5000001 >"$LAB_DIR/get" 2>&1 || why "get: $(tail -1 "$LAB_DIR/get")" || return
	same "$LAB_DIR/mapped" "$LAB_DIR/mapped.back" || return
	end_providers
	both_hold_nothing
}

# From a file into GPU memory and back, at odd offsets.
file_to_gpu() {
	head -c 3333333 "$LAB_SHM/src" >"$LAB_DIR/odd"
	provide b target --gpu 0 --size 8MiB || return
	relay a put "$LAB_DIR/odd" link:target+777 --notice there --promise 'done' >"$LAB_DIR/put" 2>&1 ||
		why "put: $(tail -1 "$LAB_DIR/put")" || return
	relay a get link:target+777 "$LAB_DIR/odd.back" --length 3333333 >"$LAB_DIR/get" 2>&1 ||
		why "get: $(tail -1 "$LAB_DIR/get")" || return
	same "$LAB_DIR/odd" "$LAB_DIR/odd.back" || return
	grep -q "^target+777 3333333 there" "$LAB_DIR/notices" || why "no notice"
	end_providers
	both_hold_nothing
}

# Daemon b gets the error while it writes; the whole put fails with the error's text, and nothing is left open.
fails_there() { # fault words
	provide b target --gpu 0 --size 64MiB || return
	faults b "copy_us=300 $1"
	relay a put "$LAB_DIR/some" link:target --promise 'done' >"$LAB_DIR/put" 2>&1 && { why "$1: the put was done"; return; }
	grep -q "$2" "$LAB_DIR/put" || why "$1: $(tail -1 "$LAB_DIR/put")" || return
	lab_wait 5 grep -q "target: .*$2" "$LAB_DIR/export.err" || why "$1: its program heard: $(tail -1 "$LAB_DIR/export.err")" || return
	end_providers
	both_hold_nothing
}

# Daemon a gets the error while it reads.
fails_here() { # fault words
	faults a "copy_us=300 $1"
	gpumem a put "$LAB_DIR/some" link:file >"$LAB_DIR/put" 2>&1 && { why "$1: the put was done"; return; }
	grep -q "$2" "$LAB_DIR/put" || why "$1: $(tail -1 "$LAB_DIR/put")" || return
	faults a "copy_us=300"
	lab_wait 8 holds_nothing a || why "a holds memory"
}

refused() { # fault words: of lr_export_gpu()
	faults b "$1"
	relay b export link:refused --gpu 0 --size 1MiB >"$LAB_DIR/refused" 2>&1 && { why "$1: it was exported"; return; }
	grep -q "$2" "$LAB_DIR/refused" || why "$1: $(tail -1 "$LAB_DIR/refused")" || return
	faults b "copy_us=300"
	both_hold_nothing
}

errors_of_an_export() {
	refused "cuIpcOpenMemHandle:2" "Cannot allocate memory" &&
		refused "cuStreamCreate:2@2" "Cannot allocate memory" &&
		refused "cuMemHostRegister:2" "Cannot allocate memory" &&
		refused "cuEventCreate:2@5" "Cannot allocate memory" &&
		refused "cuIpcOpenMemHandle:400" "Invalid argument" &&
		refused "cuDevicePrimaryCtxRetain:46" "Input/output error" &&
		refused "cuDeviceGetByPCIBusId:101" "no such GPU" || return
	grep -q "refused cannot be opened: cuMemHostRegister: CUDA_ERROR_OUT_OF_MEMORY (2)" "$LAB_DIR/b/log" ||
		why "not in the log: $(grep refused "$LAB_DIR/b/log" | tail -1)"
}

errors_of_a_call() {
	head -c $((16 * MIB)) "$LAB_SHM/src" >"$LAB_DIR/some"
	truncate -s $((16 * MIB)) "$LAB_DIR/file"
	provide b file --file "$LAB_DIR/file" --access rw || return
	fails_here "cuMemcpyDtoHAsync:2@3" "out of memory" || return
	fails_here "cuEventQuery:999@3" "reports an error" || return
	fails_here "cuMemcpyDtoHAsync:709@3" "context was destroyed" || return
	end_providers
	fails_there "cuMemcpyHtoDAsync:2@3" "out of memory" || return
	fails_there "cuEventRecord:2@3" "out of memory" || return
	fails_there "cuEventQuery:999@3" "reports an error" || return
	fails_there "cuEventQuery:709@3" "context was destroyed" || return
	fails_there "copy:709@3" "context was destroyed"
}

# These break the daemon's process for CUDA: other regions go on, and GPU memory after the next start.
errors_of_the_gpu() {
	local fault
	for fault in cuMemcpyHtoDAsync:700@3 copy:719@3 cuEventQuery:714@3; do
		fails_there "$fault" "GPU lost" || return
		relay b export link:x --gpu 0 --size 1MiB >"$LAB_DIR/x" 2>&1 && { why "exported on a broken GPU"; return; }
		provide b file --file "$LAB_DIR/file" --access rw || return
		relay a put "$LAB_DIR/some" link:file --promise 'done' >"$LAB_DIR/put" 2>&1 ||
			why "a file beside a lost GPU: $(tail -1 "$LAB_DIR/put")" || return
		same "$LAB_DIR/some" "$LAB_DIR/file" || return
		end_providers
		faults b "copy_us=300"
		restart b || return
	done
	provide b file --file "$LAB_DIR/file" --access rw || return
	fails_here "copy:700@3" "GPU lost" || return
	end_providers
	restart a
}

# Kills the putting program, and the program with the region, in the middle of a put.
killed_programs() {
	faults a "copy_us=20000"
	faults b "copy_us=20000"
	provide b target --gpu 0 --size 300MiB || return
	gpumem a put "$LAB_SHM/src" link:target >/dev/null 2>&1 &
	local put=$!
	sleep 0.7
	end_program KILL $put
	lab_wait 8 holds_nothing a || why "a still has $(opened a) pieces of GPU memory" || return
	gpumem a put "$LAB_SHM/src" link:target >"$LAB_DIR/put" 2>&1 &
	put=$!
	sleep 0.7
	kill -KILL "$PROVIDER"
	wait $put && { why "a put into memory of a dead program was done"; return; }
	grep -q "no such region" "$LAB_DIR/put" || why "put: $(tail -1 "$LAB_DIR/put")" || return
	end_providers
	both_hold_nothing
}

a_has_nothing_open() {
	[ "$(opened a)" = 0 ]
}

# The answer to a put that is near may take as long as the line is down: neither the program nor its memory waits for it.
near_while_the_line_is_down() {
	head -c $MIB "$LAB_SHM/src" >"$LAB_DIR/near"
	provide b target --gpu 0 --size 8MiB || return
	lab_line_ctl cut
	gpumem a put "$LAB_DIR/near" link:target near >"$LAB_DIR/put" 2>&1
	local rc=$?
	[ $rc = 0 ] && { lab_wait 3 a_has_nothing_open || why "a still has $(opened a) pieces of GPU memory"; }
	lab_line_ctl uncut
	[ $rc = 0 ] || why "put: $rc $(tail -1 "$LAB_DIR/put")"
	[ -z "$WHY" ] || return
	lab_wait 20 holds_nothing a || why "the put does not arrive" || return
	relay a get link:target "$LAB_DIR/near.back" --length $MIB >"$LAB_DIR/get" 2>&1 || why "get: $(tail -1 "$LAB_DIR/get")" || return
	same "$LAB_DIR/near" "$LAB_DIR/near.back" || return
	end_providers
	both_hold_nothing
}

# kill -9 of the writing daemon: chunks that it had not reported as done are written again by the next daemon.
killed_daemon() {
	head -c $((64 * MIB)) "$LAB_SHM/src" >"$LAB_SHM/part"
	faults a "copy_us=300"
	faults b "copy_us=20000"
	provide b target --gpu 0 --size 64MiB || return
	relay a put "$LAB_SHM/part" link:target --promise 'done' >"$LAB_DIR/put" 2>&1 &
	local put=$!
	sleep 0.7
	lab_edge_stop b KILL
	faults b "copy_us=300"
	lab_edge_start b
	wait $put || why "put: $(tail -1 "$LAB_DIR/put")" || return
	NOTE=$(tail -1 "$LAB_DIR/put")
	relay a get link:target "$LAB_SHM/back" >"$LAB_DIR/get" 2>&1 || why "get: $(tail -1 "$LAB_DIR/get")" || return
	same "$LAB_SHM/part" "$LAB_SHM/back" || return
	rm -f "$LAB_SHM/back"
	end_providers
	both_hold_nothing
}

# The same, but the program with the memory ends as well, and the next one has other memory under the name.
killed_daemon_and_program() {
	faults b "copy_us=20000"
	provide b target --gpu 0 --size 64MiB || return
	relay a put "$LAB_SHM/part" link:target --promise 'done' >"$LAB_DIR/put" 2>&1 &
	local put=$!
	sleep 0.7
	lab_edge_stop b KILL # first: it would fail the put when the program ends
	kill -KILL "$PROVIDER"
	faults b "copy_us=300"
	lab_edge_start b
	lab_wait 5 relay b regions link >/dev/null || why "no relay at b" || return
	provide b target --gpu 0 --size 64MiB || return
	wait $put && { why "half of the put lies in memory that is gone, and it was done"; return; }
	grep -q "started again" "$LAB_DIR/put" || why "put: $(tail -1 "$LAB_DIR/put")" || return
	end_providers
	both_hold_nothing
}

# Medians: of one READ at a time, which crosses both edges twice, and of puts of 4 KiB into a file.
latencies() { # what they are beside: a line "what READ-us put-ms" in $LAB_DIR/medians
	local i
	lab_rcperf --op read --size 64 --depth 1 --every-ms 10 --secs 2 || why "rcperf: $(tail -1 "$LAB_DIR/rcperf.err")" || return
	for i in {1..15}; do
		relay a put "$LAB_DIR/tiny" link:file --promise 'done' --json || why "a put into the file failed" || return
	done >"$LAB_DIR/puts"
	echo "$1 $(lab_result .here.latency_us.p50) $(jq -s 'map(.seconds * 1000) | sort | .[7]' "$LAB_DIR/puts")" >>"$LAB_DIR/medians"
}

# The least of the rounds: other programs of this machine make some of them longer.
least() { # what column
	awk -v what="$1" -v c="$2" '$1 == what && (!n++ || $c < min) { min = $c } END { printf "%.2f", min }' "$LAB_DIR/medians"
}

# The GPU is slowed down once for several measurements: copies already under way take seconds to finish.
round_beside_a_slow_gpu() { # how many measurements without it and beside it
	local gpu i
	for ((i = 0; i < $1; i++)); do
		latencies without || return
	done
	faults a "copy_us=100000"
	faults b "copy_us=100000"
	gpumem a put "$LAB_SHM/src" link:slow >"$LAB_DIR/put" 2>&1 &
	gpu=$!
	sleep 2 # until the edges' buffers for it are full
	for ((i = 0; i < $1; i++)); do
		latencies beside || return
	done
	kill -0 $gpu 2>/dev/null || why "the put was over too soon: $(tail -1 "$LAB_DIR/put")" || return
	end_program TERM $gpu
	faults a "copy_us=300"
	faults b "copy_us=300"
	lab_wait 8 holds_nothing a || why "a holds memory"
}

slow_gpu() {
	head -c 4096 "$LAB_SHM/src" >"$LAB_DIR/tiny"
	provide b file --file "$LAB_DIR/file" --access rw || return
	provide b slow --gpu 0 --size 300MiB || return
	lab_server "$B_HOST"
	round_beside_a_slow_gpu 1 && round_beside_a_slow_gpu 2 || return
	lab_servers_stop
	NOTE="READ $(least without 2) us, beside a slow GPU $(least beside 2); put of 4 KiB $(least without 3) ms, $(least beside 3)"
	holds "$(least beside 2) < $(least without 2) * 1.25 + 100" || why "$NOTE" || return
	holds "$(least beside 3) < $(least without 3) * 1.25 + 1" || why "$NOTE" || return
	end_providers
	both_hold_nothing
}

# As with systemd's User=: the program's user is another one than the daemon's. fakecuda's memory is files, which both must open.
other_user() {
	local mask
	mask=$(umask)
	lab_edge_stop b
	chmod 1777 "$LAB_DIR" # the socket
	chmod 711 "$LAB_DIR/keys"
	chown -R nobody "$LAB_DIR/b" "$LAB_DIR/keys/b" "$LAB_SHM/b"
	LAB_DAEMON_ARGS="--user nobody" lab_edge_start b
	lab_link_up || why "the link does not come up" || return
	lab_wait 5 relay b regions link >/dev/null || why "no relay at b" || return
	umask 0
	provide b target --gpu 0 --size 64MiB
	umask "$mask"
	[ -z "$WHY" ] || return
	gpumem a put "$LAB_SHM/part" link:target >"$LAB_DIR/put" 2>&1 || why "put: $(tail -1 "$LAB_DIR/put")" || return
	relay a get link:target "$LAB_SHM/back" >"$LAB_DIR/get" 2>&1 || why "get: $(tail -1 "$LAB_DIR/get")" || return
	same "$LAB_SHM/part" "$LAB_SHM/back" || return
	rm -f "$LAB_SHM/back"
	end_providers
	both_hold_nothing || return
	lab_edge_stop b
	chown -R root "$LAB_DIR/b" "$LAB_DIR/keys/b" "$LAB_SHM/b"
	lab_edge_start b
	lab_link_up
}

not_enabled() {
	lab_edges_stop
	LAB_EXTRA="Relay.Enable=yes"
	lab_edges
	lab_link_up || why "the link does not come up" || return
	lab_wait 5 relay a regions link >/dev/null || why "no relay at a" || return
	relay a export link:x --gpu 0 --size 1MiB >"$LAB_DIR/x" 2>&1 && { why "it was exported"; return; }
	grep -q "no \[Relay\] GPU=yes" "$LAB_DIR/x" || why "$(tail -1 "$LAB_DIR/x")"
	! grep -q libcuda "/proc/$(lab_edge_child a)/maps" || why "libcuda.so.1 is loaded"
}

# The daemon of the test before has limited its system calls, and cannot take that back.
enabled_too_late() {
	! grep -q 'built with a sanitizer' "$LAB_DIR/a/log" || { NOTE="a daemon with a sanitizer limits no system calls"; return 77; }
	[ -z "$(lab_status a '.links[0].restart_needed')" ] || why "before: $(lab_status a '.links[0].restart_needed')" || return
	sed -i '/^\[Relay\]/a GPU=yes' "$(lab_conf_path a)"
	lab_client a restart link >"$LAB_DIR/restarted" 2>&1 || why "$(tail -1 "$LAB_DIR/restarted")" || return
	lab_link_up || why "the link does not come up" || return
	[[ $(lab_status a '.links[0].restart_needed') = GPU=yes*"systemctl restart longreachd"* ]] ||
		why "status: $(lab_status a '.links[0].restart_needed')" || return
	lab_edge_stop a
	LAB_EXTRA="Relay.Enable=yes Relay.GPU=yes" lab_edge_start a
	lab_link_up || why "the link does not come up" || return
	[ -z "$(lab_status a '.links[0].restart_needed')" ] || why "after: $(lab_status a '.links[0].restart_needed')"
}

# Another link's file has an error at the start, so no link starts; when it is mended, a reload starts them all.
enabled_beside_a_bad_file() {
	! grep -q 'built with a sanitizer' "$LAB_DIR/a/log" || { NOTE="a daemon with a sanitizer limits no system calls"; return 77; }
	lab_edge_stop a
	echo "[Link" >"$LAB_DIR/a/bad.conf"
	LAB_EXTRA="Relay.Enable=yes Relay.GPU=yes" LAB_DAEMON_ARGS="--config $LAB_DIR/a/bad.conf" lab_edge_start a
	lab_wait 5 is_refused a || why "the daemon takes a bad file: $(lab_status a .refused)" || return
	rm "$LAB_DIR/a/bad.conf"
	lab_client a reload >"$LAB_DIR/reloaded" 2>&1 || why "$(tail -1 "$LAB_DIR/reloaded")" || return
	lab_link_up || why "the link does not come up" || return
	[ -z "$(lab_status a '.links[0].restart_needed')" ] || why "$(lab_status a '.links[0].restart_needed')"
}

is_refused() { # a|b
	[ -n "$(lab_status "$1" '.refused // ""')" ]
}

lab_up
lab_line --rate "$LAB_LINE_RATE" --km 50
LAB_EXTRA="Relay.Enable=yes Relay.GPU=yes"
LAB_EXTRA_A="Relay.Socket=$LAB_DIR/a.relay"
LAB_EXTRA_B="Relay.Socket=$LAB_DIR/b.relay"
lab_watch_line
check "edges with a relay and a GPU come up" start_edges
check "$GPU_MIB MiB from GPU to GPU, and got back" gpu_to_gpu
check "memory of cuMemCreate(), as a descriptor" mapped_memory
check "a file into GPU memory and back, at odd offsets" file_to_gpu
check "GPU memory that cannot be exported says why" with_fakecuda errors_of_an_export
check "errors of one call fail what used it, by their names" with_fakecuda errors_of_a_call
check "a lost GPU fails its operations, and nothing else" with_fakecuda errors_of_the_gpu
check "programs killed in the middle leave nothing" killed_programs
check "a near put holds no memory while the line is down" near_while_the_line_is_down
check "put into a GPU goes on over kill -9 of the far daemon" killed_daemon
check "it fails if the program with the memory is another one after that" killed_daemon_and_program
check "a daemon of another user opens a program's memory" other_user
[ -z "${FULL:-}" ] || check "a slow GPU leaves the latency of RDMA and of files" with_fakecuda slow_gpu
check "without GPU=yes no driver is loaded" not_enabled
check "GPU=yes that comes after the daemon's start asks for another" enabled_too_late
check "GPU=yes beside a link file with an error is in force when that is mended" enabled_beside_a_bad_file
check_end
