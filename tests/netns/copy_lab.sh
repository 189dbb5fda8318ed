# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# copy_lab.sh - what tests of longreach copy share: the export at site B, trees, and their comparison. To be sourced after
# check.sh.
#
# The export "data" is $THERE, and belongs to the user nobody.

MIB=$((1 << 20))
: "${THERE:=}" # set after lab_up
EXPORTS= COPY=

# The lines of both link files. To be called after lab_up.
copy_settings() {
	LAB_MODE=near
	LAB_EXTRA="Relay.Enable=yes"
	LAB_EXTRA_A="Relay.Socket=$LAB_DIR/a.relay"
	LAB_EXTRA_B="Relay.Socket=$LAB_DIR/b.relay Export_data.Path=$THERE Export_data.Mode=write Export_data.User=nobody"
}

copy() { # arguments...
	LONGREACH_RELAY="$LAB_DIR/a.relay" timeout "${LAB_COPY_PATIENCE:-300}" "$LAB_BIN/longreach" copy "$@"
}

start_exports() {
	ip netns exec "$LAB_ID-eb" "$LAB_BIN/longreachd" --exports --verbose --config "$(lab_conf_path b)" >>"$LAB_DIR/b/exports.log" 2>&1 &
	EXPORTS=$!
}

# The process that sends the contents of an export.
sender_of() { # export
	pgrep -P "$EXPORTS" -x "lr>:$1"
}

# The process that has the user's rights.
server_of() { # export
	pgrep -P "$EXPORTS" -x "lr:$1"
}

# Edges, and the export of $THERE at b.
start_export() {
	mkdir -p "$THERE"
	chmod 755 "$LAB_DIR"
	chown nobody "$THERE"
	echo small >"$LAB_DIR/small"
	lab_edges
	lab_link_up || why "the link does not come up" || return
	start_exports
	lab_wait 5 test -S "$LAB_DIR/b.relay" || why "no relay at b"
	lab_wait 5 copy -n "$LAB_DIR/small" link:data || why "no export: $(copy -n "$LAB_DIR/small" link:data 2>&1 | tail -1)"
}

# Difficult names, and all kinds of files that are copied.
make_tree() { # directory
	local d=$1 i
	mkdir -p "$d/sub/empty" "$d/many" "$d/-dash" "$d/ro"
	head -c $((5 * MIB + 123)) /dev/urandom >"$d/large"
	head -c $((24 * MIB)) /dev/urandom >"$d/sub/larger"
	head -c 32768 /dev/urandom >"$d/just small"
	head -c 32769 /dev/urandom >"$d/just large"
	: >"$d/empty"
	for i in $(seq 300); do echo "file $i" >"$d/many/$i"; done
	echo a >"$d/with space"
	echo b >"$d/"$'new\nline'
	echo c >"$d/"$'tab\t\x01\xff'
	echo d >"$d/ünïcödé"
	echo e >"$d/-dash/--option"
	echo f >"$d/"'*?[a]$(x)"'"'"
	echo g >"$d/$(printf 'n%.0s' $(seq 255))"
	truncate -s $((64 * MIB)) "$d/sparse"
	echo middle | dd of="$d/sparse" bs=1 seek=$((30 * MIB)) conv=notrunc status=none
	truncate -s $((8 * MIB)) "$d/only hole"
	ln -s large "$d/symlink"
	ln -s /nowhere/at/all "$d/dangling"
	ln -s ../../.. "$d/sub/up"
	ln "$d/large" "$d/sub/hard"
	ln "$d/many/1" "$d/many/one"
	chmod 600 "$d/large"
	chmod 755 "$d/many/2"
	echo in >"$d/ro/file"
	chmod 555 "$d/ro"
	python3 -c 'import os, sys
os.setxattr(sys.argv[1] + "/large", b"user.comment", b"a\0b")
os.setxattr(sys.argv[1] + "/many/3", b"user.small", b"")
os.setxattr(sys.argv[1] + "/sub", b"user.dir", b"d")' "$d" 2>/dev/null
	touch -d '2001-02-03 04:05:06.789012345' "$d/many/4" "$d/large"
	touch -hd '2002-03-04 05:06:07' "$d/symlink"
	touch -d '1969-12-31 23:00:00.5' "$d/many/5"
	touch -d '2003-04-05 06:07:08' "$d/sub/empty" "$d/sub" "$d/many" "$d/ro" "$d"
}

# Describes a tree: kinds, modes, sizes, times, links, xattrs, contents.
describe() { # directory
	python3 - "$1" <<-'END'
		import os, sys, hashlib, stat
		root = os.fsencode(sys.argv[1])
		inodes = {}
		def contents(path):
		    h = hashlib.sha256()
		    with open(path, "rb") as f:
		        while part := f.read(1 << 20):
		            h.update(part)
		    return h.hexdigest()
		for d, dirs, files in os.walk(root):
		    dirs.sort()
		    for name in [b""] + sorted(files) + [x for x in dirs if os.path.islink(os.path.join(d, x))]:
		        p = os.path.join(d, name) if name else d
		        s = os.lstat(p)
		        rel = os.path.relpath(p, root)
		        what = [stat.filemode(s.st_mode), s.st_mtime_ns]
		        if stat.S_ISLNK(s.st_mode):
		            what.append(os.readlink(p))
		        else:
		            what.append(sorted((x, os.getxattr(p, x)) for x in os.listxattr(p) if x.startswith("user.")))
		        if stat.S_ISREG(s.st_mode):
		            what += [s.st_size, contents(p), s.st_nlink, inodes.setdefault(s.st_ino, rel)]
		        print(rel, what)
	END
}

same_trees() { # directory directory
	local here
	describe "$1" >"$LAB_DIR/tree.here" &
	here=$!
	describe "$2" >"$LAB_DIR/tree.there"
	wait $here
	same_descriptions
}

same_descriptions() {
	[ -s "$LAB_DIR/tree.here" ] || why "the tree here cannot be read" || return
	diff "$LAB_DIR/tree.here" "$LAB_DIR/tree.there" >"$LAB_DIR/tree.diff" || why "$(grep -m1 '^[<>]' "$LAB_DIR/tree.diff" | cut -c1-200)"
}

of_json() { # file field
	jq -r ".$2" "$1"
}

# Starts a copy in the background, its process is COPY.
begin_copy() { # from to
	LONGREACH_RELAY="$LAB_DIR/a.relay" "$LAB_BIN/longreach" copy --json --timeout 200 "$1" "$2" \
		>"$LAB_DIR/big.json" 2>"$LAB_DIR/big.err" &
	COPY=$!
}

# --- kill -9 ---

kill_server() {
	local pid
	pid=$(server_of data) && kill -KILL "$pid"
}

kill_edge() { # a|b
	lab_edge_stop "$1" KILL
	lab_edge_start "$1"
}

kill_exports() {
	kill -KILL "$EXPORTS"
	wait "$EXPORTS" 2>/dev/null
	start_exports
}

kill_copy() {
	kill -KILL $COPY
	wait $COPY 2>/dev/null
	COPY=
}

alive() { # pid
	kill -0 "$1" 2>/dev/null
}
