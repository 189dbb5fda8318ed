#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A core dump of the daemon contains no key and no payload of hosts.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

WORD=a-word-that-nobody-but-the-hosts-may-read

dumped() { # pid what...
	"$LAB_TOOLS/dumped" "$@" >"$LAB_DIR/dumped.out" 2>&1
}

# The raw private key as hexadecimal digits, and a line of its file.
key_of() { # a|b
	openssl pkey -in "$LAB_DIR/keys/$1/link.key" -noout -text | awk '/^priv:/ { on = 1; next } /^pub:/ { exit } on' |
		tr -d ' :\n'
}

line_of_key() { # a|b
	sed -n 2p "$LAB_DIR/keys/$1/link.key"
}

# The search works: it finds what is there.
finds_in_a_host() {
	local pid
	lab_load --op write --qps 2 --size 65536 || why "no traffic" || return
	pid=$(ip netns pids "$LAB_ID-ha" | xargs -I{} sh -c 'grep -qx rcperf /proc/{}/comm && echo {}' | tail -1)
	dumped "$pid" pattern
	[ $? = 1 ] || why "no payload in a host's memory: $(cat "$LAB_DIR/dumped.out")" || return
	NOTE=$(head -1 "$LAB_DIR/dumped.out")
	lab_load_end
}

finds_keys_in_a_shell() {
	local key
	key=$(key_of a)
	[ ${#key} -ge 64 ] || why "what is the key? '$key'" || return
	KEY_TEXT=$(line_of_key a) sleep 30 &
	local pid=$!
	lab_wait 2 grep -qx sleep "/proc/$pid/comm"
	dumped $pid "text=$(line_of_key a)"
	[ $? = 1 ] || why "not found: $(cat "$LAB_DIR/dumped.out")" || return
	kill $pid
}

words_by_tcp() {
	lab_in hb timeout 100 socat -u TCP-LISTEN:7777,reuseaddr OPEN:"$LAB_DIR/words",creat,trunc &
	lab_wait 3 lab_listens hb 7777
	for _ in $(seq 60); do
		for _ in $(seq 200); do echo "$WORD"; done
		sleep 0.05
	done | lab_in ha timeout 100 socat -u - TCP:$B_HOST:7777
	wait
}

# Under load: bytes wait in buffers, cross, and are delivered.
nothing_in() { # a|b child|parent
	local pid=${LAB_EDGE_PID[$1]}
	[ "$2" = parent ] || pid=$(lab_edge_child "$1")
	VERBOSE=1 dumped "$pid" pattern "text=$WORD" "hex=$(key_of "$1")" "text=$(line_of_key "$1")"
	case $? in
	0) NOTE=$(tail -1 "$LAB_DIR/dumped.out") ;;
	*) why "$(tr '\n' ' ' <"$LAB_DIR/dumped.out")" ;;
	esac
}

under_load() { # a|b
	lab_load --op mix --qps 4 --size 65536 || why "no traffic" || return
	words_by_tcp &
	local words=$!
	lab_wait 5 test -s "$LAB_DIR/words"
	nothing_in "$1" child && nothing_in "$1" parent
	lab_load_end || why "the client failed"
	wait $words
	grep -q "$WORD" "$LAB_DIR/words" || why "no word came through"
	[ -z "$WHY" ]
}

LAB_EXTRA=Link.Barrier=pair
lab_up
lab_line --rate $LAB_LINE_RATE --km 100 --loss 1%
lab_server $B_HOST
lab_edges
check "the link comes up" lab_link_up
check "payload is found where it is" finds_in_a_host
check "a key is found where it is" finds_keys_in_a_shell
check "no key and no payload in a dump of the near edge" under_load a
check "nor of the far edge" under_load b
check_end
