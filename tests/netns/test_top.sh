#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `longreach top` in a terminal of 80 columns (tmux) with a running pair: it shows the values of status, keys work as in the
# help, and it survives a dead daemon and a small or closed terminal.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

TMUX_SOCKET=lrtop$$
SESSIONS=0
QPS=3

screen() { # the terminal, as text
	tmux -L $TMUX_SOCKET capture-pane -p -t top
}

shows() { # extended regular expression
	screen | grep -qE "$1"
}

keys() {
	tmux -L $TMUX_SOCKET send-keys -t top "$@"
}

start_top() { # columns lines longreach-arguments...
	local cols=$1 lines=$2
	shift 2
	tmux -L $TMUX_SOCKET kill-server 2>/dev/null
	SESSIONS=$((SESSIONS + 1))
	TMUX_SOCKET=lrtop$$.$SESSIONS # one that has gone is not gone at once
	rm -f "$LAB_DIR/top.status"
	LC_ALL=C.UTF-8 tmux -L $TMUX_SOCKET -f /dev/null new-session -d -s top -x "$cols" -y "$lines" \
		"LC_ALL=${TOP_LOCALE:-C.UTF-8} $LAB_BIN/longreach --control $LAB_DIR/a/control top $* 2>$LAB_DIR/top.err; echo \$? >$LAB_DIR/top.status; sleep 60"
}

ended() { # with that status
	[ "$(cat "$LAB_DIR/top.status" 2>/dev/null)" = "$1" ]
}

wants() { # seconds regular-expression
	lab_wait "$1" shows "$2" || why "no /$2/ on: $(screen | head -12 | tr -s ' ' | tr '\n' '~')"
}

all_links() {
	local used
	start_top 80 24
	wants 5 '^link +up ' || return
	wants 5 'M?bit/s +.*bit/s' || return
	wants 5 '^buffer  \[[#.|]{30}\].*XOFF' || return
	wants 5 'at most 3[0-9]{2} km' || return
	wants 5 '^burst   1 ms +[0-9.]+ [MG]bit/s, 100 us +[0-9.]+ [MG]bit/s' || return
	wants 5 '^prio    [0-7]: [0-9.]+ [MG]bit/s, [0-9.]+ [MG]bit/s' || return
	wants 5 '^the path +up' || return
	# the marks of the sparkline stand behind the fill
	wants 8 '% .*[▁▂▃▄▅▆▇█]' || return
	used=$(screen | wc -L)
	[ "$used" -le 80 ] || why "$used columns"
	NOTE="$used columns"
}

# The number of flows in status, a rate, and the largest rate first.
flows_of_a_link() {
	local n
	keys Enter
	wants 5 '^SIDE REQUESTER' || return
	wants 5 "^near 10\.101\.1\.2 +10\.101\.2\.2 +0x[0-9a-f]{6} +[0-9.]+ [kMG]?bit/s" || return
	n=$(lab_client a status --flows --json 2>/dev/null | jq '.links[0].flows | length')
	lab_wait 5 shows "^flows $n of $n, by rate" || why "not $n flows: $(screen | tail -2 | head -1)" || return
	[ "$n" -ge $QPS ] || why "only $n flows"
	NOTE="$n flows"
}

sort_and_filter() {
	local qpn
	keys s
	wants 2 ', by buffered' || return
	keys r
	wants 2 ', by buffered, reversed' || return
	keys r
	qpn=$(lab_client a status --flows --json | jq -r '[.links[0].flows[] | select(.side == "near")][0].dest_qpn')
	keys / "near $(printf '0x%x' "$qpn")" Enter
	lab_wait 3 shows "^flows 1 of " || why "the filter leaves $(screen | grep '^flows')" || return
	keys / Escape
	lab_wait 3 shows "^flows [^1]" || why "the filter stays" || return
	keys / nobody Enter
	lab_wait 3 shows "^flows 0 of .*with: nobody" || why "the filter lets pass" || return
	keys Enter # opens nothing
	keys / Escape
}

one_flow() {
	keys Enter
	wants 3 '^10\.101\.[12]\.2 QP 0x[0-9a-f]{6} -> 10\.101\.[12]\.2 QP 0x' || return
	wants 3 '^position    base [0-9]+' || return
	wants 5 '^rate +[0-9.]+ [kMG]?bit/s' || return
	keys Escape
	wants 3 '^SIDE REQUESTER' || return
	keys Escape
	wants 3 '^LINK +STATE' || return
	keys h
	wants 3 'RNR sent +the flow has no room' || return
	keys h
	wants 3 '^LINK +STATE'
}

# A resized terminal, a far too small one, and ASCII where the locale has no UTF-8.
terminals() {
	tmux -L $TMUX_SOCKET resize-window -t top -x 120 -y 40
	wants 3 '^LINK +STATE' || return
	tmux -L $TMUX_SOCKET resize-window -t top -x 30 -y 6
	wants 3 '^the terminal is too' || return
	tmux -L $TMUX_SOCKET resize-window -t top -x 80 -y 24
	wants 3 '^LINK +STATE' || return
	keys q
	lab_wait 3 ended 0 || why "q does not end it: $(cat "$LAB_DIR/top.status" 2>&1)" || return
	TOP_LOCALE=C start_top 80 24
	wants 8 '% .*[-.:=+*#@]$' || return
	! screen | grep -q '[▁▂▃▄▅▆▇█]' || why "UTF-8 in a locale that has none"
}

speaks() {
	! shows 'daemon is silent'
}

daemon_gone() {
	lab_edge_stop a KILL
	wants 15 'daemon is silent' || return
	lab_edge_start a
	lab_wait 15 lab_link_is_up || why "the link does not come back" || return
	lab_wait 15 shows '^link +up ' || why "top does not go on" || return
	lab_wait 10 speaks || why "it still says that the daemon is silent" || return
	keys q
	lab_wait 3 ended 0 || why "it does not end"
}

# The ssh connection has gone: no process stays, and none loops.
terminal_gone() {
	local pid
	start_top 80 24 link
	wants 5 '^SIDE REQUESTER' || return
	pid=$(pgrep -f "^$LAB_BIN/longreach --control $LAB_DIR/a/control top")
	[ -n "$pid" ] || why "no process" || return
	tmux -L $TMUX_SOCKET kill-server
	lab_wait 3 lab_gone "$pid" || why "it outlives its terminal"
}

no_terminal() {
	local status
	lab_client a top </dev/null >"$LAB_DIR/top.out" 2>&1
	status=$?
	[ $status = 2 ] && grep -q 'needs a terminal' "$LAB_DIR/top.out" || why "status $status: $(cat "$LAB_DIR/top.out")" || return
	start_top 80 24 nolink
	lab_wait 3 ended 1 || why "a link that is not there: $(cat "$LAB_DIR/top.status" "$LAB_DIR/top.err")" || return
	grep -q nolink "$LAB_DIR/top.err" || why "it does not say which link"
}

if ! command -v tmux >/dev/null; then
	skipped() {
		WHY="no tmux"
		return 77
	}
	check "top: on a terminal" skipped
	check_end
fi
lab_up
trap 'status=$?; tmux -L $TMUX_SOCKET kill-server 2>/dev/null; (exit $status); lab_down' EXIT
lab_line --rate $LAB_LINE_RATE
lab_line_set 300
lab_server $B_HOST
lab_edges
lab_link_up
lab_load --qps $QPS --rate 0.3
check "top: all links" all_links
check "top: the flows of a link" flows_of_a_link
check "top: order and filter" sort_and_filter
check "top: one flow, and back" one_flow
check "top: terminals of other sizes and characters" terminals
check "top: the daemon goes and comes back" daemon_gone
check "top: the terminal goes" terminal_gone
check "top: no terminal, no such link" no_terminal
check_end
