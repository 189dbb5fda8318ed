#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# --metrics: the scrape is valid, agrees with status, and resists nonsense from strangers.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

WHERE=127.0.0.1:9470
LAB_DAEMON_ARGS="--metrics $WHERE"

scrape() { # what the edge answers, head and all, in $LAB_DIR/answer, the body in $LAB_DIR/metrics
	printf 'GET /metrics HTTP/1.1\r\nHost: edge\r\n\r\n' | lab_in ea socat -t5 - TCP:$WHERE >"$LAB_DIR/answer"
	sed '1,/^\r$/d' "$LAB_DIR/answer" >"$LAB_DIR/metrics"
}

value() { # series
	awk -v series="$1 " 'index($0, series) == 1 { print $NF }' "$LAB_DIR/metrics"
}

ask() { # bytes to send: the first line of the answer
	printf "$1" | lab_in ea timeout 12 socat -t12 - TCP:$WHERE 2>/dev/null | head -1 | tr -d '\r'
}

sound() {
	local length
	scrape
	head -1 "$LAB_DIR/answer" | grep -q '^HTTP/1.1 200 OK' || why "$(head -1 "$LAB_DIR/answer")" || return
	grep -qi '^Content-Type: text/plain; version=0.0.4' "$LAB_DIR/answer" || why "another content type" || return
	length=$(sed -n 's/^Content-Length: \([0-9]*\)\r$/\1/p' "$LAB_DIR/answer")
	[ "$length" = "$(stat -c %s "$LAB_DIR/metrics")" ] || why "Content-Length: $length" || return
	awk -f "${BASH_SOURCE[0]%/*}/metrics_check.awk" "$LAB_DIR/metrics" >"$LAB_DIR/wrong" ||
		why "$(head -1 "$LAB_DIR/wrong")" || return
	if command -v promtool >/dev/null; then
		promtool check metrics <"$LAB_DIR/metrics" >"$LAB_DIR/wrong" 2>&1
		[ $? != 1 ] || why "promtool: $(tr '\n' ';' <"$LAB_DIR/wrong")" || return
		# promtool's only style complaints: rates of a line are in bits, as carriers give them.
		! grep -vE 'bits_per_second use base unit|fec_delay_us_total metric names' "$LAB_DIR/wrong" >"$LAB_DIR/style" ||
			why "promtool: $(tr '\n' ';' <"$LAB_DIR/style")" || return
	fi
	NOTE="$(grep -c '^# TYPE' "$LAB_DIR/metrics") families, $(grep -vc '^#' "$LAB_DIR/metrics") series, $length bytes"
}

# Every counter and drop of the status exists and, without traffic, has the same value.
as_status() {
	lab_rcperf --iters 200 --size 8192 || why "no traffic" || return
	# the last packets and their reports are still under way
	lab_wait 3 alike || why "$DIFFERENCE" || return
	[ "$(value 'longreach_link_state{link="link",state="up"}')" = 1 ] || why "the state is not up" || return
	holds "$(value 'longreach_lan_rx_bytes_total{link="link"}') >= 200 * 8192" || why "too few bytes from hosts" || return
	NOTE="$(wc -l <"$LAB_DIR/wanted") values alike"
}

alike() {
	local name is want
	scrape
	lab_status a '.links[0] | (.counters | to_entries[] | "\(.key)_total{link=\"link\"} \(.value)"),
		(.drops | to_entries[] | "drops_total{link=\"link\",reason=\"\(.key)\"} \(.value)"),
		(.events | to_entries[] | "events_total{link=\"link\",event=\"\(.key)\"} \(.value)")' >"$LAB_DIR/wanted"
	while read -r name want; do
		is=$(value "longreach_$name")
		# keepalives go on
		[[ $name == wan_*x_* ]] && holds "$is > 0 && $is <= $want" && continue
		DIFFERENCE="$name is ${is:-missing}, status says $want"
		[ "$is" = "$want" ] || return
	done <"$LAB_DIR/wanted"
}

# Requests at a low rate: each is acknowledged at LAN distance, delivered after the line (300 km), and then measured at the other
# edge.
latency() {
	local acked delivered
	lab_rcperf --iters 400 --size 4096 --depth 1 --every-ms 5 || why "no traffic" || return
	lab_wait 3 measured_inward || why "inward at the other edge: few samples" || return
	scrape
	acked=$(value 'longreach_latency_seconds_bucket{link="link",stage="acked",le="0.002"}')
	holds "$(value 'longreach_latency_seconds_count{link="link",stage="acked"}') >= 100" || why "ACKs: few samples" || return
	holds "$acked > 0" || why "no ACK at LAN distance" || return # no delivery takes as little, see below
	delivered=$(value 'longreach_latency_seconds_count{link="link",stage="delivered"}')
	holds "$delivered >= 100" || why "deliveries: $delivered samples" || return
	[ "$(value 'longreach_latency_seconds_bucket{link="link",stage="delivered",le="0.002"}')" = 0 ] || why "delivered within 2 ms over 300 km" || return
	NOTE=$(lab_client a status | sed -n 's/^ *latency *//p')
	[[ $NOTE = *ACK*delivered* ]] || why "status says: $NOTE"
}

measured_inward() {
	holds "$(lab_status b '.links[0].latency.inward.samples') >= 20"
}

# The sample of turns counts about as many packets as there were, and the worker is busier with traffic than without.
costs() {
	local before after load idle
	idle=$(cost_of_second)
	before=$(sampled_and_all)
	lab_load --size 65536 --depth 8 || why "no traffic" || return
	load=$(cost_of_second)
	lab_client a status --cycles >"$LAB_DIR/cycles"
	sleep 1 # more turns for the sample
	lab_load_end || why "contents, order or count are wrong" || return
	after=$(sampled_and_all)
	NOTE=$(printf '%s\n%s\n' "$before" "$after" | awk '{ s[NR] = $1; a[NR] = $2 } END { printf "%.2f", (s[2] - s[1]) / (a[2] - a[1]) }')
	holds "$NOTE >= 0.5 && $NOTE <= 2" || why "$NOTE of the packets by the sample" || return
	holds "$load > $idle && $load <= 1" || why "load $load with traffic, $idle without" || return
	grep -qE '^  worker 0: busy [0-9.]+ % of the time between two answers; of that:' "$LAB_DIR/cycles" ||
		why "--cycles says: $(grep worker "$LAB_DIR/cycles")" || return
	grep -qE '^ +lan_take +[0-9.]+ % +[0-9]+ +[0-9]+ +[0-9]+$' "$LAB_DIR/cycles" || why "--cycles has no lan_take" || return
	NOTE="load $load, without traffic $idle; the sample reckons $NOTE of the packets"
}

cost_of_second() { # the worker's load
	local before
	before=$(lab_status a '.links[0].worker_costs[0] | "\(.busy_ns) \(.running_ns)"')
	sleep 1
	echo "$before $(lab_status a '.links[0].worker_costs[0] | "\(.busy_ns) \(.running_ns)"')" |
		awk '{ printf "%.6f", ($3 - $1) / ($4 - $2) }'
}

sampled_and_all() { # packets of hosts: reckoned from the sample, and counted
	lab_status a '.links[0] | .worker_costs[0] as $w | "\(($w.stages[] | select(.stage == "lan_take") | .packets)
		* $w.busy_turns / ([$w.sampled_turns, 1] | max)) \(.counters.lan_rx_packets)"'
}

# Every metric of the dashboard and the alert rules in etc/ is served.
asked_for() {
	local root=${BASH_SOURCE[0]%/*}/../.. name n=0
	scrape
	for name in $(grep -ohE '(longreach|process)_[a-z0-9_]*' "$root/etc/grafana/longreach.json" "$root/etc/prometheus/longreach.rules.yml" |
		sort -u); do
		n=$((n + 1))
		grep -q "^${name}[{ ]" "$LAB_DIR/metrics" || why "$name is not served" || return
	done
	[ $n -gt 30 ] || why "only $n names" || return
	NOTE="$n names"
}

# A Prometheus in the edge's namespace scrapes it and answers every query of the dashboard; queries that show only values above
# 0 may be empty.
dashboard_is_answered() {
	local pid status=0 program
	for program in prometheus promtool; do
		command -v $program >/dev/null || { WHY="$program is missing (package prometheus)" && return 77; }
	done
	jq -n --arg at $WHERE --arg rules "$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)/etc/prometheus/longreach.rules.yml" '{global:
		{scrape_interval: "1s", evaluation_interval: "1s"}, rule_files: [$rules],
		scrape_configs: [{job_name: "longreach", static_configs: [{targets: [$at]}]}]}' >"$LAB_DIR/prometheus.yml"
	ip netns exec "$LAB_ID-ea" prometheus --config.file "$LAB_DIR/prometheus.yml" --storage.tsdb.path "$LAB_DIR/tsdb" \
		--web.listen-address 127.0.0.1:9090 >"$LAB_DIR/prometheus.log" 2>&1 &
	pid=$!
	lab_wait 15 scraped_twice || { kill $pid; wait $pid; why "$(tail -1 "$LAB_DIR/prometheus.log")"; return; }
	ask_dashboard || status=1
	kill $pid
	wait $pid
	return $status
}

query() { # PromQL: one line for each series
	lab_in ea promtool query instant http://127.0.0.1:9090 "$1"
}

scraped_twice() {
	[ "$(query 'count_over_time(longreach_build_info[1m]) >= 3' 2>/dev/null | wc -l)" = 1 ]
}

ask_dashboard() {
	local expr n=0 series=0 got
	while read -r expr; do
		query "$expr" >"$LAB_DIR/answered" 2>&1 || why "$expr: $(head -1 "$LAB_DIR/answered")" || return
		got=$(wc -l <"$LAB_DIR/answered")
		[ "$got" -gt 0 ] || [[ $expr == *"> 0" ]] || why "nothing answers $expr" || return
		n=$((n + 1)) series=$((series + got))
	done < <(jq -r '.panels[].targets[].expr' "${BASH_SOURCE[0]%/*}/../../etc/grafana/longreach.json" |
		sed 's/\$__rate_interval/1m/g; s/\$instance/.*/g; s/\$link/.*/g')
	[ "$(query 'longreach:link_up{link="link"} == 1' | wc -l)" = 1 ] || why "the recording rule says the link is down" || return
	NOTE="$n queries, $series series"
}

# The same for the metrics of a path.
path_as_status() {
	local name is want n=0
	scrape
	lab_status a '.links[0].paths[0] | "path_lost_total \(.lost)", "path_loss_bursts_total \(.loss_bursts)",
		"path_loss_burst_longest_datagrams \(.loss_burst_longest)", "path_reordered_total \(.reordered)",
		"path_reordered_by_most_datagrams \(.reordered_by_most)", "path_repairs_total \(.repaired_by_retransmission)",
		"path_repaired_by_fec_total \(.repaired_by_fec)", "path_rebuilt_total \(.rebuilt_by_fec)",
		"path_line_loss_ratio \(.line_loss)", "path_epoch \(.epoch)", "path_rtt_least_seconds \(.rtt_min_ns / 1e9)"' \
		>"$LAB_DIR/wanted"
	while read -r name want; do
		is=$(grep "^longreach_$name{" "$LAB_DIR/metrics" | awk '{ print $NF }')
		n=$((n + 1))
		holds "${is:--1} == $want" || why "$name is ${is:-missing}, status says $want" || return
	done <"$LAB_DIR/wanted"
	holds "$(value 'longreach_path_up{link="link",path=""}') == 1" || why "the path is not up" || return
	NOTE="$n values alike"
}

distance() {
	lab_wait 10 distance_is_known || why "after 10 s $(value 'longreach_distance_measured_meters{link="link"}') m"
	NOTE="$(value 'longreach_distance_measured_meters{link="link"}') m"
}

distance_is_known() {
	scrape
	holds "$(value 'longreach_distance_measured_meters{link="link"}') > 295000" &&
		[ "$(value 'longreach_distance_differs{link="link"}')" = 1 ]
}

strangers() {
	local got
	for got in 'GET /metricsx HTTP/1.1\r\n\r\n=404 Not Found' 'POST /metrics HTTP/1.1\r\n\r\n=405 Method Not Allowed' \
		'nonsense\r\n\r\n=400 Bad Request' 'GET / HTTP/3\r\n\r\n=505 HTTP Version Not Supported' \
		"$(printf 'GET / HTTP/1.1\\r\\nX: %09000d' 0)=431 Request Header Fields Too Large"; do
		[ "$(ask "${got%=*}")" = "HTTP/1.1 ${got##*=}" ] || why "${got:0:40}: $(ask "${got%=*}")" || return
	done
	lab_edge_alive a || why "the edge died"
}

# Silent connections: a few keep others out for at most ten seconds; packets are not affected.
silent_ones() {
	local i start
	for i in {1..20}; do
		lab_in ea timeout 14 socat -u TCP:$WHERE - >/dev/null 2>&1 &
	done
	sleep 0.5
	lab_rcperf --iters 200 --size 8192 || why "no traffic beside them" || return
	start=$SECONDS
	lab_wait 13 answers || why "still nobody is let in" || return
	NOTE="answers again after $((SECONDS - start)) s"
	wait $(jobs -p | grep -vxF "$(printf '%s\n' "${LAB_EDGE_PID[@]}" "$LAB_LINE_PID" $LAB_SERVER_PIDS)") 2>/dev/null
	return 0
}

answers() {
	scrape
	grep -q '^HTTP/1.1 200' "$LAB_DIR/answer"
}

# What another program may do, or an address that is gone.
the_place_is_taken() {
	local taker
	lab_edge_stop a
	ip netns exec "$LAB_ID-ea" socat -u "TCP-LISTEN:${WHERE##*:},bind=${WHERE%:*},reuseaddr" /dev/null &
	taker=$!
	lab_wait 3 taken || why "the test cannot take the port" || return
	lab_edge_start a
	lab_link_up || why "no link: $(tail -1 "$LAB_DIR/a/log")" || { kill $taker && wait $taker 2>/dev/null; return 1; }
	lab_rcperf --iters 20 --size 4096 || why "nothing is carried"
	lab_client a status >"$LAB_DIR/out"
	grep -q "^no metrics are served: --metrics $WHERE: cannot listen: Address already in use" "$LAB_DIR/out" ||
		why "status does not say so"
	lab_client a doctor >"$LAB_DIR/out" 2>&1
	grep -q '^metrics: no metrics are served: --metrics.*in use' "$LAB_DIR/out" || why "the doctor says: $(cat "$LAB_DIR/out")"
	lab_client a status --check >"$LAB_DIR/out" 2>&1 || why "the check fails: $(cat "$LAB_DIR/out")"
	[ "$(grep -c 'cannot listen.*tries again' "$LAB_DIR/a/log")" = 1 ] || why "the log does not say it once"
	kill $taker
	wait $taker 2>/dev/null
	[ -z "$WHY" ] || return
	lab_wait 3 answers || why "the port is free, and nobody answers" || return
	! lab_client a status | grep -q "no metrics" || why "status says that none are served"
}

taken() {
	lab_in ea ss -Hltn "sport = :${WHERE##*:}" | grep -q .
}

# Two link files, each of which is valid: together they are refused, and no link is started.
no_link_at_start() {
	local other=$LAB_DIR/a/other.conf
	lab_edge_stop a
	lab_conf a >"$other"
	LAB_DAEMON_ARGS="--metrics $WHERE --config $other" lab_edge_start a
	lab_wait 5 answers || why "no answer" || return
	rm "$other"
	[ "$(value longreach_links)" = 0 ] || why "longreach_links is $(value longreach_links)" || return
	[ "$(value longreach_link_files_refused)" = 1 ] || why "the files are not refused" || return
	[ "$(value longreach_all_roce_closed)" = 0 ] || why "all RoCE is closed: another alert tells that" || return
	! grep -q '^longreach_link_state{' "$LAB_DIR/metrics" || why "there is a link"
}

unix_socket() {
	lab_edges_stop
	LAB_DAEMON_ARGS="--metrics $LAB_DIR/metrics.sock"
	lab_edge_start a
	lab_wait 5 test -S "$LAB_DIR/metrics.sock" || why "no socket" || return
	printf 'GET /metrics HTTP/1.0\r\n\r\n' | socat -t5 - "UNIX:$LAB_DIR/metrics.sock" >"$LAB_DIR/answer"
	sed '1,/^\r$/d' "$LAB_DIR/answer" >"$LAB_DIR/metrics"
	[ "$(value 'longreach_link_state{link="link",state="waiting"}')" = 1 ] || why "the state is not waiting" || return
	lab_edge_stop a
	[ ! -e "$LAB_DIR/metrics.sock" ] || why "the socket is left"
}

lab_up
lab_line --rate $LAB_LINE_RATE
lab_line_set 300
lab_server $B_HOST
LAB_EXTRA_A=Link.Distance=100km
lab_edges
lab_link_up
check "metrics: a scrape is sound" sound
check "metrics: they are what status says" as_status
check "metrics: those of the path, too" path_as_status
check "metrics: how long requests take" latency
check "metrics: where the time of a worker goes" costs
check "metrics: what dashboard and rules ask for" asked_for
check "metrics: Prometheus answers the dashboard" dashboard_is_answered
check "metrics: the measured distance" distance
check "metrics: strangers are answered in short" strangers
check "metrics: silent connections end" silent_ones
check "metrics: a place that another program has" the_place_is_taken
check "metrics: a start whose link files are refused" no_link_at_start
check "metrics: a Unix socket" unix_socket
check_end
