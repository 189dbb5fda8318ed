#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Engine=dpdk: repeated kill -9 while devices write into the links' buffers. Acknowledged messages are delivered once and
# unchanged: rcperf counts and compares every byte.
#
#     host a --- edge a (killed) === line, 300 km === edge b (killed) --- host b
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"
. "$(dirname "$0")/dpdk.sh"

[ "${FULL:-}" != 1 ] || KILLS=${KILLS:-16}
KILLS=${KILLS:-4}

# The process that carries packets, which its parent restarts.
kill_child() { # a|b
	local child
	child=$(lab_edge_child "$1")
	kill -9 "$child"
	lab_wait 5 lab_gone "$child"
}

# The daemon begun last has started its link, or has given up. bytes: of its log, from the daemons before.
decided() { # a|b bytes
	! lab_edge_alive "$1" || tail -c +$(($2 + 1)) "$LAB_DIR/$1/log" | grep -q 'link link: started'
}

# Both processes; the next daemon starts while the former child may still be dying, and retries as a service manager does.
kill_both() { # a|b
	local before
	kill -9 "${LAB_EDGE_PID[$1]}"
	wait "${LAB_EDGE_PID[$1]}" 2>/dev/null
	for _ in 1 2 3 4 5 6 7 8; do
		before=$(stat -c %s "$LAB_DIR/$1/log")
		lab_edge_start "$1"
		lab_wait 10 decided "$1" "$before"
		lab_edge_alive "$1" && return
		sleep 0.1
		STARTS=$((STARTS + 1))
	done
	why "edge $1 does not start again: $(tail -1 "$LAB_DIR/$1/log")"
}

killed() { # rcperf options
	local e i=0
	STARTS=0
	# shellcheck disable=SC2086 # several words
	LAB_PATIENCE=$((KILLS * 60)) lab_load --port 18517 --depth 32 $LAB_PATIENT "$@" || why "no traffic" || return
	while [ $i -lt "$KILLS" ]; do
		sleep 0.5
		e=a
		[ $((i % 4)) -lt 2 ] || e=b
		if [ $((i % 2)) = 0 ]; then kill_child $e; else kill_both $e || break; fi
		i=$((i + 1))
		lab_link_up && lab_load_moves || why "no traffic after kill $i" || break
	done
	lab_load_end || why "contents, order or count are wrong: $(tail -1 "$LAB_DIR/rcperf.err")" || return
	[ -z "$WHY" ] || return
	! grep -hE 'damaged|set aside' "$LAB_DIR"/[ab]/log || why "a buffer was damaged" || return
	NOTE="$i kills, $(lab_result .messages) messages, $(lab_result .here.retries) retries"
}

if [ -n "$MISSING" ]; then
	check "Engine=dpdk, killed" skipped
	check_end
fi
LAB_DAEMONS=$LAB_BIN
lab_up
mkdir -p "$LAB_DIR/bin"
printf '#!/bin/sh\nexec %s/longreachd --plugins %s/plugins --eal "--no-huge -m 256" "$@"\n' "$LAB_DAEMONS" "$LAB_DAEMONS" \
	>"$LAB_DIR/bin/longreachd"
ln -sf "$LAB_DAEMONS/longreach" "$LAB_DIR/bin/longreach"
chmod 755 "$LAB_DIR/bin" "$LAB_DIR/bin/longreachd"
LAB_BIN=$LAB_DIR/bin
LAB_EXTRA="Link.Engine=dpdk Link.LanDevice=$DEVICE"
LAB_MODE=near LAB_PATIENCE=120
lab_line --rate $LAB_LINE_RATE
lab_line_set 300
lab_edges
lab_link_up || lab_die "the link does not come up"
lab_server $B_HOST --port 18517 --timeout-ms 500
check "dpdk: daemons killed again and again under a mix, both ways" killed --op mix --bidir --size 20000
check_end
