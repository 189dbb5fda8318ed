#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The web page of --metrics for a healthy link, a cut line, a full buffer and a dead responder, in headless Chromium if
# installed; its events; strangers and slow readers cost little.
#
#   PAGE_SHOTS=DIR O=... tests/netns/run.sh page      keeps a picture of each state
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

PORT=9470
LAB_RATE=100M # a buffer fills in a second
LAB_BUFFER=32MiB
LAB_DAEMON_ARGS="--metrics 127.0.0.1:$PORT"
STREAMS_MAX=4

ask() { # seconds request-lines...: the whole answer, in $LAB_DIR/answer
	local seconds=$1
	shift
	printf '%s\r\n' "$@" '' | lab_in ea timeout "$seconds" socat -t"$seconds" - TCP:127.0.0.1:$PORT >"$LAB_DIR/answer" 2>/dev/null
	return 0
}

head_has() { # extended regular expression
	sed '/^\r$/q' "$LAB_DIR/answer" | tr -d '\r' | grep -qiE "$1" || why "the head has no $1"
}

the_page() {
	local outside
	ask 3 'GET / HTTP/1.1' "Host: 127.0.0.1:$PORT"
	head_has '^HTTP/1.1 200 OK' || return
	head_has '^Content-Type: text/html' || return
	head_has "^Content-Security-Policy: default-src 'none'.*script-src 'sha256-[A-Za-z0-9+/]{43}='.*connect-src 'self'" || return
	head_has '^X-Frame-Options: DENY' || return
	outside=$(sed '1,/^\r$/d' "$LAB_DIR/answer" | grep -oE '(https?:)?//[a-z0-9.]+' | grep -v 'http://www.w3.org' | head -1)
	[ -z "$outside" ] || why "it names $outside" || return
	[ "$(sed '1,/^\r$/d' "$LAB_DIR/answer" | cmp - "$LAB_ROOT/daemon/telemetry/page.html" 2>&1)" = "" ] || why "it is not the file" || return
	ask 3 'HEAD / HTTP/1.1' 'Host: localhost'
	head_has '^Content-Length: [1-9]' || return
	[ "$(sed '1,/^\r$/d' "$LAB_DIR/answer" | wc -c)" = 0 ] || why "HEAD has a body"
}

# One event a second; each try listens twice as long as the one before.
EVENTS_S=4
three_events() {
	ask $EVENTS_S 'GET /events HTTP/1.1' 'Host: localhost'
	EVENTS_S=$((2 * EVENTS_S))
	[ "$(grep -c '^data: ' "$LAB_DIR/answer")" -ge 3 ]
}

events() {
	local n
	lab_wait 4 three_events || why "$(grep -c '^data: ' "$LAB_DIR/answer") events in $((EVENTS_S / 2)) s" || return
	head_has '^Content-Type: text/event-stream' || return
	! grep -qi '^Access-Control' "$LAB_DIR/answer" || why "other sites may read it" || return
	sed -n 's/^data: //p' "$LAB_DIR/answer" >"$LAB_DIR/events"
	n=$(wc -l <"$LAB_DIR/events")
	tail -1 "$LAB_DIR/events" | jq -e '.links[0] | .state == "up" and .counters.lan_rx_bytes > 0 and
		(.bursts.ports | length) == 2 and .bursts.ports[1].most_1ms_bps > 0' >/dev/null || why "the link is not told of" || return
	tail -1 "$LAB_DIR/events" | jq -e '.top_flows | length >= 3 and .[0].bps > 0 and .[0].bps >= .[1].bps' >/dev/null ||
		why "top_flows: $(tail -1 "$LAB_DIR/events" | jq -c '.top_flows[:2]')" || return
	! grep -qE 'PRIVATE KEY|\.key"' "$LAB_DIR/events" || why "a key" || return
	NOTE="$n events, $(tail -1 "$LAB_DIR/events" | wc -c) bytes each"
}

# The fullest bin is between the mean and the rate of the cable; history, histogram and metrics agree.
bursts() {
	local j
	j=$(lab_client a status --json | jq '.links[0].bursts')
	jq -e '.ports[0].port == "lan0" and .ports[1].port == "" and .missed == 0' <<<"$j" >/dev/null ||
		why "ports: $(jq -c '[.ports[].port, .missed]' <<<"$j")" || return
	jq -e '.ports[0] | (.history | length) >= 3 and (.history | all(.most_1ms_bps >= .bytes * 8 * 0.99 and
		.most_100us_bps >= .most_1ms_bps and .most_100us_bps <= .most_1ms_bps * 10 + 80000))' <<<"$j" >/dev/null ||
		why "a mean above its greatest: $(jq -c '.ports[0].history[-2]' <<<"$j")" || return
	jq -e '.ports[0] | ((.histogram_100us | add) / 10 - (.histogram_1ms | add)) | fabs <= 2' <<<"$j" >/dev/null ||
		why "bins are missing" || return
	jq -e '.ports[0] | ([.priorities[].bytes] | add) as $b | $b > 0 and ($b - .bytes | fabs) < 1 and
		(.history | length) as $n | all(.priorities[]; (.history_1ms_bps | length) == $n)' <<<"$j" >/dev/null ||
		why "priorities are not all of it: $(jq -c '.ports[0] | [.bytes, .priorities[].bytes]' <<<"$j")" || return
	jq -e '.ports[0] | .most_100us_time_ns / 1e9 - now | fabs < 62' <<<"$j" >/dev/null || why "another time" || return
	ask 3 'GET /metrics HTTP/1.1' 'Host: edge'
	grep -qE '^longreach_ingress_most_bits_per_second\{link="link",port="lan0",bin="1ms"\} [1-9]' "$LAB_DIR/answer" ||
		why "not in the metrics" || return
	grep -qE '^longreach_ingress_priority_most_bits_per_second\{link="link",port="lan0",bin="1ms",priority="[0-7]"\} [1-9]' "$LAB_DIR/answer" ||
		why "no priority in the metrics" || return
	NOTE="1 ms $(jq '.ports[0].most_1ms_bps / 1e6 | floor' <<<"$j") Mbit/s, 100 us $(jq '.ports[0].most_100us_bps / 1e6 | floor' <<<"$j") Mbit/s"
}

other_hosts() {
	local path
	for path in / /events; do
		ask 2 "GET $path HTTP/1.1" 'Host: attacker.example:9470'
		head_has '^HTTP/1.1 403' || return
	done
	ask 2 'GET /metrics HTTP/1.1' 'Host: edge.example:9470'
	head_has '^HTTP/1.1 200' || return
	ask 2 'POST /events HTTP/1.1' 'Host: localhost'
	head_has '^HTTP/1.1 405' || return
	ask 2 'GET /events HTTP/1.1' 'Host: localhost' 'Host: attacker.example'
	head_has '^HTTP/1.1 400' || return
	ask 2 'GET /../etc/passwd HTTP/1.1' 'Host: localhost'
	head_has '^HTTP/1.1 404'
}

reader() { # a reader of events, in the background
	printf 'GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n' | ip netns exec "$LAB_ID-ea" timeout 60 socat -t60 - TCP:127.0.0.1:$PORT >"$LAB_DIR/reader.$1" 2>/dev/null &
	READERS+=" $!"
}

is_reading() {
	grep -q '^data: ' "$LAB_DIR/reader.$1"
}

many_readers() {
	local i
	READERS=
	for ((i = 1; i <= STREAMS_MAX; i++)); do
		reader $i
		lab_wait 5 is_reading $i || why "reader $i gets nothing" || break
	done
	ask 3 'GET /events HTTP/1.1' 'Host: localhost'
	head_has '^HTTP/1.1 503' || WHY="a reader too many gets in"
	ask 3 'GET /metrics HTTP/1.1' 'Host: localhost'
	head_has '^HTTP/1.1 200' || WHY="no scrape beside the readers"
	# shellcheck disable=SC2086
	kill $READERS 2>/dev/null
	# shellcheck disable=SC2086
	wait $READERS 2>/dev/null
	lab_wait 25 place_is_free || WHY="their places stay taken"
	[ -z "$WHY" ]
}

place_is_free() {
	ask 1 'GET /events HTTP/1.1' 'Host: localhost'
	head -1 "$LAB_DIR/answer" | grep -q '^HTTP/1.1 200'
}

streams_open() {
	lab_in ea ss -Htn state established "( sport = :$PORT )" | wc -l
}

one_stream() {
	[ "$(streams_open)" = 1 ]
}

no_stream() {
	[ "$(streams_open)" = 0 ]
}

memory() { # kB of the daemon's child
	awk '/^VmRSS/ { print $2 }' "/proc/$(lab_edge_child a)/status"
}

# A reader that never reads is closed in the end, and the daemon's memory does not grow meanwhile.
slow_reader() {
	local before=$SECONDS memory_before memory_after pid
	memory_before=$(memory)
	ip netns exec "$LAB_ID-ea" bash -c "exec 5<>/dev/tcp/127.0.0.1/$PORT; printf 'GET /events HTTP/1.1\r\n\r\n' >&5; exec sleep 120" &
	pid=$!
	lab_wait 3 one_stream || why "$(streams_open) connections" || return
	lab_wait 90 no_stream || why "it keeps its place for 90 s" || return
	memory_after=$(memory)
	kill $pid
	wait $pid 2>/dev/null
	holds "$memory_after - $memory_before < 2048" || why "the daemon grew by $((memory_after - memory_before)) kB" || return
	NOTE="closed after $((SECONDS - before)) s, memory +$((memory_after - memory_before)) kB"
}

# --- in a browser: the DevTools protocol over two pipes ---

browser_start() {
	mkfifo "$LAB_DIR/cdp.in" "$LAB_DIR/cdp.out"
	HOME=$LAB_DIR ip netns exec "$LAB_ID-ea" chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
		--window-size=1180,1120 --remote-debugging-pipe --user-data-dir="$LAB_DIR/chromium" \
		about:blank 3<"$LAB_DIR/cdp.in" 4>"$LAB_DIR/cdp.out" >"$LAB_DIR/chromium.log" 2>&1 &
	BROWSER=$!
	exec {CDP_IN}>"$LAB_DIR/cdp.in" {CDP_OUT}<"$LAB_DIR/cdp.out"
	CDP_ID=0 CDP_SESSION=
	cdp Target.createTarget "{\"url\":\"http://127.0.0.1:$PORT/\"}" || return
	cdp Target.attachToTarget "{\"targetId\":$(jq .result.targetId <<<"$CDP"),\"flatten\":true}" || return
	CDP_SESSION=$(jq -r .result.sessionId <<<"$CDP")
	cdp Log.enable '{}'
}

# One command; its answer in $CDP. What the browser's log says is collected in $LAB_DIR/console.
cdp() { # method parameters
	CDP_ID=$((CDP_ID + 1))
	printf '{"id":%d,"method":"%s","params":%s%s}\0' $CDP_ID "$1" "$2" \
		"${CDP_SESSION:+,\"sessionId\":\"$CDP_SESSION\"}" >&"$CDP_IN"
	while IFS= read -r -t 30 -d '' CDP <&"$CDP_OUT"; do
		[ "$(jq .id <<<"$CDP")" = $CDP_ID ] && return 0
		jq -r 'select(.method == "Log.entryAdded") | .params.entry.text' <<<"$CDP" >>"$LAB_DIR/console"
	done
	why "the browser does not answer $1"
}

page_text() {
	cdp Runtime.evaluate '{"expression":"document.body.innerText","returnByValue":true}' && jq -r .result.result.value <<<"$CDP" >"$LAB_DIR/text"
}

page_says() { # extended regular expression
	page_text && grep -qE "$1" "$LAB_DIR/text"
}

shot() { # name
	[ -n "${PAGE_SHOTS:-}" ] || return 0
	mkdir -p "$PAGE_SHOTS"
	cdp Page.captureScreenshot '{"format":"png"}' && jq -r .result.data <<<"$CDP" | base64 -d >"$PAGE_SHOTS/$1.png"
}

wants() { # seconds regular-expression
	local end=$((SECONDS + 10 * $1))
	while ! page_says "$2"; do
		[ $SECONDS -le $end ] || why "the page does not say /$2/: $(tr '\n' '~' <"$LAB_DIR/text" | head -c 300)" || return
		sleep 0.3
	done
}

healthy() {
	browser_start || return
	wants 10 '^live$|[^a-z]live$' || return
	wants 5 '^1 link: up$' || return
	wants 5 '(Mbit|kbit|Gbit)/s from hosts' || return
	wants 10 'at most 3[0-9]{2} km' || return
	wants 5 'in 1 ms, .* in 100 us' || return
	wants 5 '0x[0-9a-f]{6}' || return
	[ -z "${PAGE_SHOTS:-}" ] || sleep 25
	shot healthy
	# keys alone: the link, the flows
	cdp Input.dispatchKeyEvent '{"type":"keyDown","key":"1","text":"1"}'
	cdp Runtime.evaluate '{"expression":"document.activeElement.id","returnByValue":true}'
	[ "$(jq -r .result.result.value <<<"$CDP")" = link-1 ] || why "key 1 does not go to the link" || return
	[ ! -s "$LAB_DIR/console" ] || why "the console says: $(head -1 "$LAB_DIR/console")"
}

path_down() {
	lab_line_ctl cut
	wants 20 '^1 link: dead$' || return
	wants 5 'dead' || return
	shot path-down
	lab_line_ctl uncut
	wants 20 '^1 link: up$'
}

buffer_full() {
	lab_load --qps 32 --size 1M --depth 64 || why "no traffic" || return
	wants 11 '[1-9][0-9]* flows held off'
	[ -n "$WHY" ] || [ -z "${PAGE_SHOTS:-}" ] || wants 8 'near XOFF|: full'
	shot buffer-full
	lab_load_end
	[ -z "$WHY" ]
}

dead_responder() {
	lab_load --qps 2 --rate 0.05 || why "no traffic" || return
	wants 8 '10\.101\.2\.2' || return
	# shellcheck disable=SC2086
	kill -STOP $LAB_SERVER_PIDS
	wants 15 'stalled$|[1-9] stalled' && shot dead-responder
	# shellcheck disable=SC2086
	kill -CONT $LAB_SERVER_PIDS
	lab_load_end # it may have failed
	[ -z "$WHY" ]
}

# Nothing of its last second stays in sight, as if it still carried.
stopped() {
	lab_client a stop link >"$LAB_DIR/stop.out" 2>&1 || why "it is not stopped: $(cat "$LAB_DIR/stop.out")" || return
	wants 15 '^1 link: stopped$' || return
	sleep 1.5
	! page_says 'Throughput, a minute|bit/s from hosts' || why "the page shows traffic of a stopped link"
	lab_client a start link >"$LAB_DIR/stop.out" 2>&1
	[ -z "$WHY" ] && wants 30 '^1 link: up$' && wants 5 'bit/s from hosts'
}

daemon_gone() {
	lab_edge_stop a KILL
	wants 15 'no connection to the daemon|the daemon is silent' || return
	lab_edge_start a
	lab_wait 15 lab_link_is_up || why "the link does not come back" || return
	wants 15 '^live$|[^a-z]live$'
}

no_browser() {
	WHY="no chromium"
	return 77
}

lab_up
lab_line --rate $LAB_LINE_RATE
lab_line_set 300
lab_server $B_HOST
lab_edges
lab_link_up
lab_load --qps 3 --rate 0.06 --size 256k
sleep 4 # seconds for the histories of what follows
check "page: one file, and nothing from outside" the_page
check "page: events" events
check "page: bursts" bursts
check "page: other hosts, methods and paths" other_hosts
if command -v chromium >/dev/null; then
	check "page: a healthy link" healthy
	lab_load_end
	check "page: a line that is cut" path_down
	check "page: a full buffer" buffer_full
	check "page: a dead responder" dead_responder
	check "page: a stopped link" stopped
	check "page: the daemon goes and comes back" daemon_gone
	kill "$BROWSER" 2>/dev/null
	wait "$BROWSER" 2>/dev/null
else
	check "page: in a browser" no_browser
	lab_load_end
fi
check "page: so many readers and no more" many_readers
[ -z "${FULL:-}" ] || check "page: a reader that does not read" slow_reader
check_end
