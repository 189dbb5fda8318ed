#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_copy.sh - longreach copy beside rsync and tar over TCP, and beside memory to memory by the same daemons. Root.
#
#   bench/bench_copy.sh [--km "0 300"] [--loss "0"] [--small FILES] [--large MIB] [--out DIR]
#
# Default: 20,000 files of 1 to 8 KiB, and 4 files of 256 MiB together; with QUICK=1 4,000 files and 64 MiB. Trees and copies are
# in memory (/dev/shm). rsync talks to a daemon on the other edge's machine (rsync -aH, no ssh), tar uses socat: both run over
# CUBIC between the edges' machines, on the same line. DIR (default bench-out) gets copy.csv. Every copy is compared with its
# source. The verdicts: large files at 0.9 of memory to memory and no slower than rsync; small files per second no fewer than
# rsync's and tar's.
. "$(dirname "$0")/../tests/netns/lab.sh"
. "$(dirname "$0")/bench.sh"

KMS="0 300" LOSSES="0" SMALL=20000 LARGE_MIB=256 OUT=bench-out

options() {
	[ -z "${QUICK:-}" ] || SMALL=4000 LARGE_MIB=64
	while [ $# -gt 0 ]; do
		case $1 in
		--km) KMS=$2 ;;
		--loss) LOSSES=$2 ;;
		--small) SMALL=$2 ;;
		--large) LARGE_MIB=$2 ;;
		--out) OUT=$2 ;;
		*)
			sed -n '5s/^# *//p' "$0" >&2
			exit 2
			;;
		esac
		shift 2 || exit 2
	done
}

make_trees() {
	local i
	FILES=$LAB_SHM/files
	mkdir -p "$FILES/src/large" "$FILES/src/small" "$FILES/dst"
	for i in 1 2 3 4; do
		head -c $((LARGE_MIB << 18)) /dev/urandom >"$FILES/src/large/$i"
	done
	python3 - "$FILES/src/small" "$SMALL" <<-'END'
		import os, random, sys
		random.seed(1)
		data = os.urandom(1 << 16)
		for i in range(int(sys.argv[2])):
		    d = os.path.join(sys.argv[1], str(i // 500))
		    os.makedirs(d, exist_ok=True)
		    n = random.randint(1 << 10, 8 << 10)
		    at = random.randint(0, len(data) - n)
		    with open(os.path.join(d, str(i)), "wb") as f:
		        f.write(data[at:at + n])
	END
	chmod -R a+rX "$LAB_SHM"
}

start_servers() {
	chmod 755 "$LAB_DIR"
	lab_edges
	lab_link_up || lab_die "the link does not come up"
	ip netns exec "$LAB_ID-eb" "$LAB_BIN/longreachd" --exports --config "$(lab_conf_path b)" >>"$LAB_DIR/exports.log" 2>&1 &
	LONGREACH_RELAY=$LAB_DIR/b.relay "$LAB_BIN/longreach" export link:memory --shm "${LARGE_MIB}MiB" --access w >"$LAB_DIR/export.log" 2>&1 &
	MEMORY=$!
	cat >"$LAB_DIR/rsyncd.conf" <<-END
		[dst]
		path = $FILES/dst
		read only = no
		uid = root
		gid = root
	END
	ip netns exec "$LAB_ID-eb" rsync --daemon --no-detach --port 8730 --config "$LAB_DIR/rsyncd.conf" >"$LAB_DIR/rsyncd.log" 2>&1 &
	lab_wait 5 lab_listens eb 8730 || lab_die "rsync does not listen"
	lab_wait 8 longreach copy -n "$FILES/src/large/1" link:dst || lab_die "no export: $(cat "$LAB_DIR/exports.log")"
}

longreach() {
	LONGREACH_RELAY="$LAB_DIR/a.relay" "$LAB_BIN/longreach" "$@"
}

# --- the copies: each function fills an empty $FILES/dst from a tree ---

by_longreach() { # tree
	longreach copy "$FILES/src/$1" link:dst >"$LAB_DIR/copy.out" 2>&1
}

by_rsync() { # tree
	lab_in ea rsync -aH "$FILES/src/$1" rsync://192.0.2.2:8730/dst/ >"$LAB_DIR/rsync.out" 2>&1
}

by_tar() { # tree
	lab_in eb socat -u TCP-LISTEN:9400,reuseaddr SYSTEM:"tar -x -C $FILES/dst" &
	local server=$!
	lab_wait 3 lab_listens eb 9400
	tar -c -C "$FILES/src" "$1" | lab_in ea socat -u - TCP:192.0.2.2:9400
	wait $server
}

by_memory() {
	longreach put "$FILES/memory" link:memory --promise 'done' >"$LAB_DIR/put.out" 2>&1
}

# Prints the seconds of a copy, or nothing if the copy failed.
measure() { # what tree
	local begin
	rm -rf "${FILES:?}/dst"/* # not the directory, which the servers have open
	begin=$(date +%s%N)
	"by_$1" "$2" || return
	awk "BEGIN { printf \"%.3f\", ($(date +%s%N) - $begin) / 1e9 }"
	[ "$1" = memory ] || diff -r "$FILES/src/$2" "$FILES/dst/$2" >"$LAB_DIR/diff" 2>&1 || echo "DIFFERS" >&2
}

row() { # km loss
	local what tree secs large_bits=$((LARGE_MIB << 23))
	declare -A took
	lab_line_set "$1" "loss=$2"
	for what in memory longreach rsync tar; do
		for tree in large small; do
			[ "$what $tree" != "memory small" ] || continue
			secs=$(measure $what $tree)
			took[$what $tree]=$secs
			echo "$1,$2,$what,$tree,$secs" >>"$OUT/copy.csv"
		done
		awk -v km="$1" -v loss="$2" -v what=$what -v large="${took[$what large]}" -v small="${took[$what small]}" \
			-v bits=$large_bits -v files="$SMALL" 'BEGIN {
			printf "%6s %6s  %-10s %8s Mbit/s %10s files/s\n", km, loss, what,
				(large > 0 ? sprintf("%.0f", bits / large / 1e6) : "-"), (small > 0 ? sprintf("%.0f", files / small) : "-") }'
	done
	ratio "$1 km, $2 loss: large files / memory to memory" "${took[memory large]}" "${took[longreach large]}" 0.9
	ratio "$1 km, $2 loss: large files / rsync" "${took[rsync large]}" "${took[longreach large]}" 1
	ratio "$1 km, $2 loss: small files / rsync" "${took[rsync small]}" "${took[longreach small]}" 1
	ratio "$1 km, $2 loss: small files / tar" "${took[tar small]}" "${took[longreach small]}" 1
}

ratio() { # what seconds-of-the-other seconds-of-ours limit
	if [ -z "$2" ] || [ -z "$3" ]; then
		no_verdict "$1" "a copy failed"
	else
		verdict "$1" "$(awk "BEGIN { printf \"%.2f\", $2 / $3 }")" '>=' "$4"
	fi
}

options "$@"
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
say_if_busy
lab_up
lab_line --rate $LAB_LINE_RATE --km 0
LAB_MODE=near
LAB_EXTRA="Relay.Enable=yes"
LAB_EXTRA_A="Relay.Socket=$LAB_DIR/a.relay"
make_trees
LAB_EXTRA_B="Relay.Socket=$LAB_DIR/b.relay Export_dst.Path=$FILES/dst Export_dst.Mode=write Export_dst.User=root"
head -c $((LARGE_MIB << 20)) /dev/urandom >"$FILES/memory"
start_servers
echo "km,loss,by,tree,seconds" >"$OUT/copy.csv"
echo "    km   loss  by            large          small      (a line of $LAB_LINE_RATE, Rate=$LAB_RATE)"
for km in $KMS; do
	for loss in $LOSSES; do
		row "$km" "$loss"
	done
done
kill "$MEMORY"
