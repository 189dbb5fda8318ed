#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# longreach copy with real daemons: a tree with all kinds of entries arrives unchanged, although processes are killed.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"
. "$(dirname "$0")/copy_lab.sh"

start_edges() {
	mkdir -p "$LAB_DIR/secret" "$LAB_DIR/readable"
	echo private >"$LAB_DIR/secret/file"
	mkdir -p "$LAB_DIR/there/tiny"
	mount -t tmpfs -o size=4M,uid=nobody none "$LAB_DIR/there/tiny"
	start_export
}

tree_arrives() {
	make_tree "$LAB_DIR/src"
	copy --json "$LAB_DIR/src" link:data/new/ >"$LAB_DIR/copy.json" 2>"$LAB_DIR/copy.err" ||
		why "copy: $(tail -1 "$LAB_DIR/copy.err") $(tail -1 "$LAB_DIR/b/exports.log")" || return
	same_trees "$LAB_DIR/src" "$LAB_DIR/there/new/src" || return
	[ "$(du -s --block-size=1 "$LAB_DIR/there/new/src/sparse" | cut -f1)" -le $((2 * MIB)) ] || why "the sparse file is not sparse" || return
	[ "$(stat -c %U "$LAB_DIR/there/new/src/large")" = nobody ] || why "it is not the user's" || return
	[ -z "$(find "$LAB_DIR/there" -name '.longreach-*')" ] || why "temporary files are left" || return
	NOTE=$(jq -r '"\(.files_copied) files, \(.sent_bytes / 1048576 | floor) MiB in \(.seconds * 100 | floor / 100) s"' "$LAB_DIR/copy.json")
}

second_copy_sends_nothing() {
	copy --json "$LAB_DIR/src" link:data/new/ >"$LAB_DIR/again.json" 2>"$LAB_DIR/copy.err" || why "copy: $(tail -1 "$LAB_DIR/copy.err")" || return
	[ "$(of_json "$LAB_DIR/again.json" sent_bytes)" = 0 ] || why "$(of_json "$LAB_DIR/again.json" sent_bytes) bytes were sent" || return
	same_trees "$LAB_DIR/src" "$LAB_DIR/there/new/src"
}

# Starts a copy, and waits until so many MiB of the large file are there.
begin_and_wait() { # from to folder-where-it-arrives
	begin_copy "$1" "$2"
	lab_wait 20 some_arrived "$3" || why "nothing arrives: $(tail -1 "$LAB_DIR/big.err")"
}

# Breaks in on a copy. At the rate of the edge that sends, its 64 MiB last for ten seconds, until that is done.
amid() { # a|b begin_large|begin_pull destination command...
	local edge=$1 status
	lab_set_rate "$edge" 50M || why "$(head -1 "$LAB_DIR/reload.out")" || return
	"$2" "$3" && "${@:4}"
	status=$?
	lab_wait 5 lab_set_rate "$edge" "$LAB_RATE" || why "$(head -1 "$LAB_DIR/reload.out")" || return
	return $status
}

begin_large() { # destination
	begin_and_wait "$LAB_DIR/big" "link:data/$1/" "$LAB_DIR/there/$1"
}

some_arrived() { # folder: 8 MiB of 64
	local f
	f=$(find "$1" -name '.longreach-journal*' 2>/dev/null | head -1)
	[ -n "$f" ] && [ "$(stat -c %s "$f")" -gt $((8 * 32)) ]
}

make_big() {
	mkdir -p "$LAB_DIR/big/d"
	head -c $((64 * MIB)) /dev/urandom >"$LAB_DIR/big/d/file"
	for i in $(seq 200); do head -c 3000 /dev/urandom >"$LAB_DIR/big/d/s$i"; done
}

killed_copy_goes_on() {
	make_big
	amid a begin_large killed kill_copy || return
	[ ! -e "$LAB_DIR/there/killed/big/d/file" ] || why "a half-written file has its name" || return
	copy --json "$LAB_DIR/big" link:data/killed/ >"$LAB_DIR/big.json" 2>"$LAB_DIR/big.err" || why "copy: $(tail -1 "$LAB_DIR/big.err")" || return
	same_trees "$LAB_DIR/big" "$LAB_DIR/there/killed/big" || return
	# files complete at the second start had arrived before the kill
	[ "$(of_json "$LAB_DIR/big.json" present_bytes)" -gt $((7 * MIB)) ] || [ "$(of_json "$LAB_DIR/big.json" sent_bytes)" -lt $((8 * MIB)) ] ||
		why "it began from the beginning: $(of_json "$LAB_DIR/big.json" sent_bytes) bytes sent, $(of_json "$LAB_DIR/big.json" present_bytes) were there" || return
	NOTE="$(($(of_json "$LAB_DIR/big.json" present_bytes) / MIB)) MiB were there, $(($(of_json "$LAB_DIR/big.json" sent_bytes) / MIB)) MiB sent"
}

# One copy, during which COMMAND kills something.
goes_on_over() { # destination command...
	local to=$1
	shift
	amid a begin_large "$to" "$@" || return
	wait $COPY || why "copy: $(tail -1 "$LAB_DIR/big.err")" || return
	same_trees "$LAB_DIR/big" "$LAB_DIR/there/$to/big" || return
	NOTE="$(($(of_json "$LAB_DIR/big.json" sent_again_bytes) / 1024)) KiB of $(($(of_json "$LAB_DIR/big.json" sent_bytes) / 1024)) KiB sent twice, $(of_json "$LAB_DIR/big.json" interruptions) interruptions"
	[ "$(of_json "$LAB_DIR/big.json" sent_again_bytes)" -lt $((40 * MIB)) ] || why "$NOTE"
}

progress_is_shown() {
	make_big
	copy --progress "$LAB_DIR/big/" link:data/progress >"$LAB_DIR/progress.out" 2>"$LAB_DIR/progress" || why "copy: $(tail -1 "$LAB_DIR/progress")" || return
	NOTE=$(tr '\r' '\n' <"$LAB_DIR/progress" | grep -oE '[0-9.]+ MB +[0-9]+%  .*B/s  [0-9]+ of 201 files  [0-9]+:[0-9]+:[0-9]+ left' | tail -1)
	[ -n "$NOTE" ] || why "it shows: $(tr '\r' '\n' <"$LAB_DIR/progress" | tail -2)"
}

cut_line() {
	lab_line_ctl cut
	sleep 4
	lab_line_ctl uncut
}

refused() { # code text arguments...
	local code=$1 text=$2
	shift 2
	copy "$@" >"$LAB_DIR/refused" 2>&1
	local is=$?
	[ $is = "$code" ] || why "$*: exit code $is, not $code: $(tail -1 "$LAB_DIR/refused")" || return
	grep -q "$text" "$LAB_DIR/refused" || why "$*: $(tail -1 "$LAB_DIR/refused")"
}

nothing_leads_out() {
	ln -s ../secret "$LAB_DIR/there/way-out"
	ln -s "$LAB_DIR/secret" "$LAB_DIR/there/way-out-too"
	chmod 777 "$LAB_DIR/secret"
	refused 5 "leads out" "$LAB_DIR/src/empty" link:data/way-out/ || return
	refused 5 "" "$LAB_DIR/src/empty" link:data/way-out-too/x || return
	refused 1 "expected a path without" "$LAB_DIR/src/empty" link:data/../secret/ || return
	mkdir -p "$LAB_DIR/trap/way-out"
	echo stolen >"$LAB_DIR/trap/way-out/file"
	copy "$LAB_DIR/trap/" link:data/ >"$LAB_DIR/trap.out" 2>&1 || why "the link is not replaced: $(tail -1 "$LAB_DIR/trap.out")" || return
	[ "$(cat "$LAB_DIR/secret/file")" = private ] || why "a file outside was written" || return
	[ "$(cat "$LAB_DIR/there/way-out/file")" = stolen ] || why "the directory did not take the link's place" || return
	refused 5 "Mode=" "$LAB_DIR/src/empty" link:lookonly/x || return
	refused 5 "no process at the other site serves" "$LAB_DIR/src/empty" link:nothing/x || return
	refused 23 "cannot be read" "$LAB_DIR/src/empty" "$LAB_DIR/not-there" link:data/some/ || return
	mkdir -p "$LAB_DIR/there/root"
	refused 23 "Permission denied" "$LAB_DIR/src/empty" link:data/root/
}

# --timeout is for what may pass.
full_disk_is_named() {
	refused 23 "No space left" --timeout 1000 "$LAB_DIR/src/large" "$LAB_DIR/src/just large" link:data/tiny/ || return
	[ -z "$(find "$LAB_DIR/there/tiny" -name large)" ] || why "half of the file has its name"
}

delete_and_exclude() {
	local d=$LAB_DIR/del
	mkdir -p "$d/keep" "$d/skip"
	echo 1 >"$d/one"; echo 2 >"$d/two.o"; echo 3 >"$d/keep/three"; echo 4 >"$d/skip/four"
	copy "$d/" link:data/del >"$LAB_DIR/del.out" 2>&1 || why "$(tail -1 "$LAB_DIR/del.out")" || return
	rm -r "$d/one" "$d/keep"
	echo 5 >"$d/five"
	mkdir -p "$LAB_DIR/there/del/deep/er"
	touch "$LAB_DIR/there/del/deep/er/file" "$LAB_DIR/there/del/x.o"
	chown -R nobody "$LAB_DIR/there/del"
	copy -n --delete --exclude '*.o' --exclude /skip "$d/" link:data/del >"$LAB_DIR/del.out" 2>&1 || why "$(tail -1 "$LAB_DIR/del.out")" || return
	for what in five 'removed: one' 'removed: keep/' 'removed: deep/er/file'; do
		grep -qx "$what" "$LAB_DIR/del.out" || why "the dry run does not say '$what'" || return
	done
	! grep -q '\.o\|skip' "$LAB_DIR/del.out" || why "the dry run touches what is excluded" || return
	[ -e "$LAB_DIR/there/del/one" ] && [ ! -e "$LAB_DIR/there/del/five" ] || why "the dry run was none" || return
	copy --delete --exclude '*.o' --exclude /skip "$d/" link:data/del >"$LAB_DIR/del.out" 2>&1 || why "$(tail -1 "$LAB_DIR/del.out")" || return
	[ "$(cd "$LAB_DIR/there/del" && find . | sort | tr '\n' ' ')" = ". ./five ./skip ./skip/four ./two.o ./x.o " ] ||
		why "left there: $(cd "$LAB_DIR/there/del" && find . | tr '\n' ' ')"
}

one_file() {
	copy "$LAB_DIR/src/large" link:data/renamed >"$LAB_DIR/one.out" 2>&1 || why "$(tail -1 "$LAB_DIR/one.out")" || return
	cmp "$LAB_DIR/src/large" "$LAB_DIR/there/renamed" || why "renamed differs" || return
	mkdir -p "$LAB_DIR/there/dir" && chown nobody "$LAB_DIR/there/dir"
	copy "$LAB_DIR/src/large" "$LAB_DIR/src/empty" link:data/dir >"$LAB_DIR/one.out" 2>&1 || why "$(tail -1 "$LAB_DIR/one.out")" || return
	cmp "$LAB_DIR/src/large" "$LAB_DIR/there/dir/large" && [ -e "$LAB_DIR/there/dir/empty" ] || why "not into the directory" || return
	echo new >"$LAB_DIR/changed"
	copy "$LAB_DIR/changed" link:data/renamed >"$LAB_DIR/one.out" 2>&1 || why "$(tail -1 "$LAB_DIR/one.out")" || return
	[ "$(cat "$LAB_DIR/there/renamed")" = new ] || why "it was not replaced"
}

# --- from the other site to here ---

# Files of the other site arrive unchanged, whatever created them.
tree_comes_back() {
	copy --json link:data/new/src "$LAB_DIR/back" >"$LAB_DIR/back.json" 2>"$LAB_DIR/copy.err" ||
		why "copy: $(tail -1 "$LAB_DIR/copy.err") $(tail -1 "$LAB_DIR/b/exports.log")" || return
	same_trees "$LAB_DIR/there/new/src" "$LAB_DIR/back/src" || return
	[ -z "$(find "$LAB_DIR/back" -name '.longreach-*')" ] || why "temporary files are left" || return
	NOTE=$(jq -r '"\(.files_copied) files, \(.sent_bytes / 1048576 | floor) MiB in \(.seconds * 100 | floor / 100) s"' "$LAB_DIR/back.json")
	copy --json link:data/new/src "$LAB_DIR/back" >"$LAB_DIR/back.json" 2>"$LAB_DIR/copy.err" || why "again: $(tail -1 "$LAB_DIR/copy.err")" || return
	[ "$(of_json "$LAB_DIR/back.json" sent_bytes)" = 0 ] || why "$(of_json "$LAB_DIR/back.json" sent_bytes) bytes were sent again"
}

files_come_back() {
	copy link:data/new/src/large "$LAB_DIR/renamed" >"$LAB_DIR/one.out" 2>&1 || why "$(tail -1 "$LAB_DIR/one.out")" || return
	cmp "$LAB_DIR/src/large" "$LAB_DIR/renamed" || why "renamed differs" || return
	mkdir -p "$LAB_DIR/into"
	touch "$LAB_DIR/into/extra"
	copy link:lookonly/new/src/large link:lookonly/new/src/sub/ "$LAB_DIR/into/" >"$LAB_DIR/one.out" 2>&1 || why "two: $(tail -1 "$LAB_DIR/one.out")" || return
	cmp "$LAB_DIR/src/large" "$LAB_DIR/into/large" && cmp "$LAB_DIR/src/sub/larger" "$LAB_DIR/into/larger" || why "two sources differ" || return
	[ -e "$LAB_DIR/into/extra" ] || why "it removed what it was not asked to" || return
	copy -n --delete --exclude 'n*' link:data/new/src/ "$LAB_DIR/into" >"$LAB_DIR/one.out" 2>&1 || why "dry: $(tail -1 "$LAB_DIR/one.out")" || return
	grep -qx 'removed: extra' "$LAB_DIR/one.out" && grep -qx 'with space' "$LAB_DIR/one.out" || why "the dry run does not say so" || return
	[ -e "$LAB_DIR/into/extra" ] && [ ! -e "$LAB_DIR/into/with space" ] || why "the dry run was none" || return
	copy --delete --exclude 'n*' link:data/new/src/ "$LAB_DIR/into" >"$LAB_DIR/one.out" 2>&1 || why "delete: $(tail -1 "$LAB_DIR/one.out")" || return
	[ ! -e "$LAB_DIR/into/extra" ] && [ -e "$LAB_DIR/into/with space" ] && [ ! -e "$LAB_DIR/into/nnn" ] || why "--delete or --exclude is not heard"
}

begin_pull() { # name
	begin_and_wait link:data/big "$LAB_DIR/$1" "$LAB_DIR/$1"
}

# The copy continues by itself after COMMAND has interrupted it.
pull_goes_on_over() { # name command...
	local to=$1
	shift
	amid b begin_pull "$to" "$@" || return
	wait $COPY || why "copy: exit $? $(tail -1 "$LAB_DIR/big.err")" || return
	same_trees "$LAB_DIR/there/big" "$LAB_DIR/$to/big"
}

killed_pull_goes_on() {
	rm -rf "$LAB_DIR/there/big"
	mkdir -p "$LAB_DIR/there/big/d"
	head -c $((64 * MIB)) /dev/urandom >"$LAB_DIR/there/big/d/file"
	for i in $(seq 200); do head -c 3000 /dev/urandom >"$LAB_DIR/there/big/d/s$i"; done
	amid b begin_pull back-killed kill_copy || return
	[ ! -e "$LAB_DIR/back-killed/big/d/file" ] || why "a half-written file has its name" || return
	copy --json link:data/big "$LAB_DIR/back-killed" >"$LAB_DIR/big.json" 2>"$LAB_DIR/big.err" || why "copy: $(tail -1 "$LAB_DIR/big.err")" || return
	same_trees "$LAB_DIR/there/big" "$LAB_DIR/back-killed/big" || return
	[ "$(of_json "$LAB_DIR/big.json" present_bytes)" -gt $((7 * MIB)) ] || why "it began from the beginning" || return
	NOTE="$(($(of_json "$LAB_DIR/big.json" present_bytes) / MIB)) MiB were there, $(($(of_json "$LAB_DIR/big.json" sent_bytes) / MIB)) MiB sent"
}

kill_sender() {
	local pid
	pid=$(sender_of data) && kill -KILL "$pid"
}

# The sender sees only the export.
nothing_comes_from_outside() {
	ln -s ../secret "$LAB_DIR/there/way-in"
	ln -s "$LAB_DIR/secret" "$LAB_DIR/there/way-in-too"
	chmod 777 "$LAB_DIR/secret"
	refused 23 "" link:data/way-in/ "$LAB_DIR/got" || return
	refused 23 "" link:data/way-in-too/ "$LAB_DIR/got" || return
	refused 1 "expected a path without" link:data/../secret/ "$LAB_DIR/got" || return
	refused 5 "no process at the other site sends" link:nothing/x "$LAB_DIR/got" || return
	refused 23 "No such file" link:data/not-there "$LAB_DIR/got" || return
	refused 3 "No such file" link:data/renamed "$LAB_DIR/no/such/directory" || return
	refused 1 "one export" link:data/a link:lookonly/b "$LAB_DIR/got" || return
	! grep -rqs private "$LAB_DIR/got" || why "a file outside came" || return
	[ "$(readlink /proc/"$(sender_of data)"/root)" = "$LAB_DIR/there" ] || why "the sender sees $(readlink /proc/"$(sender_of data)"/root)" || return
	[ "$(stat -c %U /proc/"$(sender_of data)")" = nobody ] || why "the sender is $(stat -c %U /proc/"$(sender_of data)")"
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 300
THERE=$LAB_DIR/there
copy_settings
LAB_EXTRA_B+=" Export_lookonly.Path=$THERE Export_lookonly.User=nobody"
lab_watch_line
check "edges and exports come up" start_edges
check "a tree with everything in it arrives as it is, at 300 km" tree_arrives
check "a second copy sends nothing" second_copy_sends_nothing
check "one file, by a name and into a directory" one_file
check "progress, rate and remaining time" progress_is_shown
check "a copy that was killed goes on" killed_copy_goes_on
check "goes on over kill -9 of the server" goes_on_over server kill_server
check "goes on over kill -9 of the far daemon" goes_on_over far kill_edge b
check "goes on over kill -9 of the near daemon" goes_on_over near kill_edge a
check "goes on over a line that was cut" goes_on_over cut cut_line
check "from there to here: a tree comes as it is, and a second copy sends nothing" tree_comes_back
check "from there to here: one file, two sources, --delete, --exclude, --dry-run" files_come_back
check "from there to here: a copy that was killed goes on" killed_pull_goes_on
check "from there to here: goes on over kill -9 of the sender" pull_goes_on_over back-sender kill_sender
check "from there to here: goes on over kill -9 of the near daemon" pull_goes_on_over back-near kill_edge a
[ -z "${FULL:-}" ] || check "from there to here: goes on over kill -9 of the far daemon" pull_goes_on_over back-far kill_edge b
check "from there to here: nothing but what is exported; refusals name their cause" nothing_comes_from_outside
check "a full disk there is named" full_disk_is_named
check "nothing leads out of an export; refusals name their cause" nothing_leads_out
check "--delete, --exclude, --dry-run" delete_and_exclude
kill "$EXPORTS" 2>/dev/null
check_end
