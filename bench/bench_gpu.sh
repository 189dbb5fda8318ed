#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_gpu.sh - bytes from a GPU's memory at one site to a GPU's at the other, beside memory to memory by the same daemons, and
# beside CUDA's own copy of a GPU's memory out to the host and in again. Root.
#
#   bench/bench_gpu.sh [--mib MIB] [--rounds N] [--workers N] [--out DIR]
#
# Default: 8 GiB, 3 rounds, medians. Both edges are on this machine, joined by a bridge, and their programs use the same GPU:
# the bytes leave the GPU, cross the link, and enter it elsewhere. The last round's bytes are got back and compared. DIR
# (default bench-out) gets gpu.csv. The verdict: a put from GPU to GPU at 0.8 of the slower of the other two.
# Without a GPU there are no figures; with LAB_GPU=the folder of a libcuda.so.1, that driver is used.
. "$(dirname "$0")/../tests/netns/lab.sh"
. "$(dirname "$0")/bench.sh"

SIZE_MIB=8192 ROUNDS=3 WORKERS=1 OUT=bench-out
[ -z "${QUICK:-}" ] || SIZE_MIB=1024

options() {
	while [ $# -gt 0 ]; do
		case $1 in
		--mib) SIZE_MIB=$2 ;;
		--rounds) ROUNDS=$2 ;;
		--workers) WORKERS=$2 ;;
		--out) OUT=$2 ;;
		*)
			sed -n '6s/^# *//p' "$0" >&2
			exit 2
			;;
		esac
		shift 2 || exit 2
	done
}

driver() {
	: "${LAB_GPU:=$(dirname "$(ldconfig -p | awk '/libcuda.so.1 / { print $NF; exit }')" 2>/dev/null)}"
	[ -e "$LAB_GPU/libcuda.so.1" ]
}

gpu() { # command...
	env LD_LIBRARY_PATH="$LAB_GPU" LONGREACH_RELAY="$LAB_DIR/$EDGE.relay" "$@"
}

# The bytes are random all through, so that none can be taken for those of another place.
make_bytes() {
	local i part=$((SIZE_MIB / 16))
	truncate -s "${SIZE_MIB}M" "$FILE"
	for i in {0..15}; do
		dd if=/dev/urandom of="$FILE" bs=1M count=$part seek=$((i * part)) conv=notrunc status=none &
		PARTS+=" $!"
	done
	# shellcheck disable=SC2086
	wait $PARTS
}

export_region() { # region options of longreach export... In the background.
	env LD_LIBRARY_PATH="$LAB_GPU" LONGREACH_RELAY="$LAB_DIR/b.relay" \
		"$LAB_BIN/longreach" export "link:$1" "${@:2}" --access rw >>"$LAB_DIR/export.log" 2>&1 &
	EXPORTS+=" $!"
}

start() {
	lab_daemon_under env "LD_LIBRARY_PATH=$LAB_GPU" "FAKECUDA_DIR=${FAKECUDA_DIR:-}"
	lab_edges
	lab_link_up || lab_die "the link does not come up"
	export_region memory --shm "${SIZE_MIB}MiB"
	export_region gpu --gpu 0 --size "${SIZE_MIB}MiB"
	lab_wait 20 exported memory && lab_wait 20 exported gpu || lab_die "no regions: $(cat "$LAB_DIR/export.log")"
}

exported() { # region
	EDGE=b gpu "$LAB_BIN/longreach" regions link | grep -q "^$1 "
}

# Prints the Gbit/s of one measurement.
by_cuda() {
	EDGE=a gpu "$LAB_TOOLS/gpumem" copy $((SIZE_MIB << 20)) | rate
}

by_memory() {
	EDGE=a gpu "$LAB_BIN/longreach" put "$FILE" link:memory --promise 'done' --json |
		jq -r '.bytes * 8 / .seconds / 1e9'
}

by_gpu() {
	EDGE=a gpu "$LAB_TOOLS/gpumem" put "$FILE" link:gpu | rate
}

rate() {
	awk '{ print $(NF - 1) }'
}

measure() { # what
	local got
	got=$("by_$1") || lab_die "$1: a copy failed: $(tail -2 "$LAB_DIR/a/log")"
	echo "$ROUND,$1,$got" >>"$OUT/gpu.csv"
	printf 'round %d  %-8s %10.2f Gbit/s\n' "$ROUND" "$1" "$got"
}

median() { # what
	awk -F, -v what="$1" '$2 == what { print $3 }' "$OUT/gpu.csv" | sort -g |
		awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'
}

is_same() {
	EDGE=a gpu "$LAB_BIN/longreach" get link:gpu "$FILE.back" >"$LAB_DIR/get" 2>&1 || lab_die "get: $(tail -1 "$LAB_DIR/get")"
	cmp "$FILE" "$FILE.back" || lab_die "the bytes that were got back DIFFER"
	rm -f "$FILE.back"
}

EXPORTS=
options "$@"
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
if ! driver; then
	no_verdict "GPU to GPU / the slower of CUDA's copy and memory to memory" "this machine has no libcuda.so.1"
	exit 0
fi
say_if_busy
lab_up
lab_cable
LAB_MODE=near LAB_RATE=100G LAB_BUFFER=1GiB
LAB_EXTRA="Relay.Enable=yes Relay.GPU=yes Link.Workers=$WORKERS"
LAB_EXTRA_A="Relay.Socket=$LAB_DIR/a.relay"
LAB_EXTRA_B="Relay.Socket=$LAB_DIR/b.relay"
FILE=$LAB_SHM/bytes
make_bytes
start
echo "round,by,gbps" >"$OUT/gpu.csv"
echo "$SIZE_MIB MiB, $WORKERS worker(s) at each edge, a bridge between the edges"
for ((ROUND = 1; ROUND <= ROUNDS; ROUND++)); do
	for what in cuda memory gpu; do
		measure $what
	done
done
is_same
# shellcheck disable=SC2086
kill $EXPORTS
cuda=$(median cuda) memory=$(median memory) gpu=$(median gpu)
verdict "GPU to GPU / the slower of CUDA's copy and memory to memory" \
	"$(awk "BEGIN { m = $memory < $cuda ? $memory : $cuda; printf \"%.2f\", $gpu / m }")" '>=' 0.8
