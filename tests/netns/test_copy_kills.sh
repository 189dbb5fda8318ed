#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# longreach copy of one tree over 300 km, while its program, both daemons and the export's processes are killed at random moments.
# Then the same tree from there back to here. FULL=1: 100,000 small files and two of 1 GiB, ten kills, about 7 GiB of memory; BACK=1:
# only the way back. SEED= repeats the moments.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"
. "$(dirname "$0")/copy_lab.sh"

if [ -n "${FULL:-}" ]; then
	: "${FILES:=100000}" "${LARGE_MIB:=1024}" "${KILLS:=10}"
else
	: "${FILES:=2000}" "${LARGE_MIB:=24}" "${KILLS:=3}"
fi
: "${SEED:=$RANDOM}"
RANDOM=$SEED

has_room() {
	local need=$(((FILES / 64 + 6 * LARGE_MIB) / 1024)) have
	have=$(($(df --output=avail -B1M "$LAB_SHM" | tail -1) / 1024))
	[ "$have" -ge "$need" ] || { WHY="it needs $need GiB in /dev/shm, where $have GiB are free"; return 77; }
	have=$(($(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo) >> 20))
	[ "$have" -ge "$need" ] || { WHY="it needs $need GiB of memory, of which $have GiB are free"; return 77; }
}

# Small files: odd names, modes, times, xattrs, links.
make_many() { # directory files
	python3 - "$1" "$2" "$SEED" <<-'END'
		import os, random, sys
		top, n = os.fsencode(sys.argv[1]), int(sys.argv[2])
		random.seed(int(sys.argv[3]))
		data = os.urandom(1 << 16)
		odd = bytes(c for c in range(1, 256) if c != ord("/"))
		for i in range(n):
		    folder = os.path.join(top, b"small", b"%d" % (i // 500))
		    if i % 500 == 0:
		        os.makedirs(folder)
		    name = b"%d" % i
		    if i % 50 == 0:
		        name += b" " + bytes(random.choices(odd, k=random.randint(1, 100)))
		    path = os.path.join(folder, name)
		    size = random.randint(0, 8 << 10)
		    at = random.randint(0, len(data) - size)
		    with open(path, "wb") as f:
		        f.write(data[at:at + size])
		    if i % 100 == 1:
		        try:
		            os.setxattr(path, b"user.number", b"%d" % i)
		        except OSError:
		            pass # not on this file system
		    if i % 300 == 2:
		        os.link(path, path + b" too")
		    if i % 300 == 3:
		        os.symlink(name, path + b" link")
		    os.chmod(path, random.choice((0o644, 0o600, 0o755, 0o444, 0o640)))
		    if i % 10 == 4:
		        os.utime(path, ns=(0, random.randint(0, 1 << 60)))
	END
}

make_sparse() { # file
	local i
	truncate -s $((LARGE_MIB * MIB)) "$1"
	for i in 1 2 3 4 5; do
		head -c 100000 /dev/urandom | dd of="$1" bs=1M seek=$((LARGE_MIB * i / 6)) conv=notrunc status=none
	done
}

make_all() {
	local i
	HERE=$LAB_SHM/tree
	make_tree "$HERE"
	make_many "$HERE" $FILES
	for i in 1 2; do head -c $((LARGE_MIB * MIB)) /dev/urandom >"$HERE/$i"; done
	make_sparse "$HERE/sparse too"
	describe "$HERE" >"$LAB_DIR/tree.here"
	NOTE="$(wc -l <"$LAB_DIR/tree.here") entries"
}

line_bytes() { # in the direction of the copy
	lab_line_ctl stats | jq ".$WAY.in_bytes"
}

# From here to the export there, or the tree of the export to here.
go_there() {
	WAY=ab FROM=$HERE TO=link:data TO_DIR=$THERE
}
go_back() {
	WAY=ba FROM=link:data/tree TO=$LAB_SHM/back TO_DIR=$TO
	mkdir -p "$TO"
	[ "$HERE" = "$THERE/tree" ] || mv "$HERE" "$THERE/tree" || why "the tree cannot be moved" || return
	HERE=$THERE/tree
	chown -R --no-dereference nobody "$HERE"
	describe "$HERE" >"$LAB_DIR/tree.here"
}

arrived() { # folder
	local file
	describe "$1/tree" >"$LAB_DIR/tree.there"
	same_descriptions || return
	for file in sparse 'only hole' 'sparse too'; do
		[ "$(stat -c %b "$1/tree/$file")" -le $(($(stat -c %b "$HERE/$file") + 2048)) ] || why "$file is not sparse" || return
	done
	[ -z "$(find "$1" -name '.longreach-*' -print -quit)" ] || why "temporary files are left"
}

undisturbed() {
	local before
	before=$(line_bytes)
	LAB_COPY_PATIENCE=900 copy --json "$FROM" "$TO/calm/" >"$LAB_DIR/calm.json" 2>"$LAB_DIR/copy.err" ||
		why "copy: $(tail -1 "$LAB_DIR/copy.err")" || return
	CALM_BYTES=$(($(line_bytes) - before))
	BYTES=$(of_json "$LAB_DIR/calm.json" sent_bytes)
	CALM_MS=$(jq '.seconds * 1000 | floor' "$LAB_DIR/calm.json")
	[ "$(of_json "$LAB_DIR/calm.json" sent_again_bytes)" = 0 ] || why "$(of_json "$LAB_DIR/calm.json" sent_again_bytes) bytes were sent twice" || return
	arrived "$TO_DIR/calm" || return
	rm -rf "$TO_DIR/calm"
	NOTE="$(jq -r '"\(.files_copied) files, \(.sent_bytes / 1048576 | floor) MiB in \(.seconds * 10 | floor / 10) s"' "$LAB_DIR/calm.json"), $((CALM_BYTES / MIB)) MiB on the line"
}

# KILLS names: each five of them (back: six) are all that a copy goes through, in random order.
kill_order() {
	local names=() left pick i
	for ((i = 0; i < KILLS; i++)); do
		if [ "${#names[@]}" = 0 ]; then
			names=(copy a b server exports)
			[ $WAY = ab ] || names+=(sender)
		fi
		left=${#names[@]}
		pick=$((RANDOM % left))
		echo "${names[pick]}"
		names=("${names[@]:0:pick}" "${names[@]:pick+1}")
	done
}

kill_one() { # name
	case $1 in
	copy) kill_copy ;;
	a | b) kill_edge "$1" ;;
	server) lab_wait 8 server_of data && kill_server ;;
	sender) lab_wait 8 sender_of data && kill -KILL "$(sender_of data)" ;;
	exports) kill_exports ;;
	esac
}

# Kills one after the other during one copy. A copy that was killed is started again; all else it survives.
random_kills() {
	local order=() what before began killed='' kills=0 lives=1 twice
	mapfile -t order < <(kill_order)
	before=$(line_bytes)
	began=$(date +%s%N)
	begin_copy "$FROM" "$TO/random/"
	for what in "${order[@]}"; do
		sleep "$(awk "BEGIN { printf \"%.3f\", $CALM_MS / 1e3 / ($KILLS + 1) * (0.3 + 1.2 * $RANDOM / 32768) }")"
		alive $COPY || break
		killed+=", $what at $((($(date +%s%N) - began) / 100000000))"
		kill_one "$what" || ! alive $COPY || why "cannot kill $what" || return
		kills=$((kills + 1))
		[ "$what" != copy ] || { begin_copy "$FROM" "$TO/random/" && lives=$((lives + 1)); }
	done
	wait $COPY || why "SEED=$SEED: copy: exit $? $(tail -1 "$LAB_DIR/big.err")" || return
	killed=$(sed -E 's/at ([0-9]*)([0-9])/at \1.\2/g; s/at \./at 0./g' <<<"${killed#, }")
	arrived "$TO_DIR/random" || why "SEED=$SEED: $WHY" || return
	twice=$(($(line_bytes) - before - CALM_BYTES))
	NOTE="SEED=$SEED: killed: $killed s; $((twice / 1024)) KiB of $((BYTES / 1024)) sent twice, by the line's count;"
	NOTE+=" by the last of $lives commands: $(($(of_json "$LAB_DIR/big.json" sent_again_bytes) / 1024)) KiB, $(of_json "$LAB_DIR/big.json" interruptions) interruptions"
	[ -z "${FULL:-}" ] || [ $kills = $KILLS ] || why "the copy ended before the last kill; $NOTE" || return
	# a window of pieces and what waits in the buffers for each kill, and some repetitions of the transport
	[ $twice -le $((KILLS * 16 * MIB + BYTES / 50)) ] || why "$NOTE"
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 300
THERE=$LAB_SHM/there
copy_settings
if [ -n "${FULL:-}" ] && ! has_room; then
	check "the trees have room" has_room
	check_end
fi
check "edges and exports come up" start_export
check "a tree of $FILES small files and two of $LARGE_MIB MiB" make_all
if [ -z "${BACK:-}" ]; then
	go_there
	check "the tree arrives as it is, at 300 km" undisturbed
	check "the same over kill -9 at random moments; little is sent twice" random_kills
	rm -rf "$THERE/random"
fi
check "the tree is there" go_back
check "it comes back as it is" undisturbed
check "it comes back over kill -9 at random moments; little is sent twice" random_kills
kill "$EXPORTS" 2>/dev/null
check_end
