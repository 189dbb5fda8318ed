#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_scrape.sh - time and size of a scrape of /metrics of an edge with 10,000 flows, beside one without flows. Root.
#
# CM sets up the queue pairs, so that all flows are paired; each queue pair sends a little from time to time. No sample is
# labelled with a flow, so the number of series is the same with 100,000 flows (longreach flow and status --flows name flows).
. "$(dirname "$0")/../tests/netns/lab.sh"
. "$(dirname "$0")/bench.sh"
QPS=10000
CLIENTS="2 3 4" # numbers of hosts; three, because one rcperf has at most 4096 queue pairs
EACH=3400
SCRAPES=${SCRAPES:-50}

flows() { lab_status a '.links[0].flow_counts.near'; }
enough_flows() { [ "$(flows)" -ge "$QPS" ]; }

# Prints the bytes of a scrape, and its milliseconds: the median, the worst.
scrapes() {
	lab_in ea perl -MIO::Socket::INET -MTime::HiRes=time -e '
		for (1 .. $ARGV[0]) {
			my $began = time;
			my $s = IO::Socket::INET->new("127.0.0.1:9470") or die "nobody listens\n";
			print $s "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
			{ local $/; $text = <$s>; }
			push @t, 1000 * (time - $began);
		}
		open(my $f, ">", $ARGV[1]); print $f $text;
		@t = sort { $a <=> $b } @t;
		printf "%d %.1f %.1f\n", length $text, $t[$#t / 2], $t[-1]' "$SCRAPES" "$LAB_DIR/metrics"
}

# Counts series, without those of priorities: a port has at most eight, each from its first frame on.
series() { grep '^longreach' "$LAB_DIR/metrics" | grep -vc '^longreach_ingress_priority_'; }

lab_up
say_if_busy
lab_line --rate $LAB_LINE_RATE --km 30
for n in $CLIENTS; do
	lab_server "10.101.2.$n" --port $((18515 + n))
done
LAB_BUFFER=256MiB LAB_DAEMON_ARGS="--metrics 9470"
lab_edges
lab_link_up || lab_die "the link does not come up"
read -r bytes median worst < <(scrapes)
series=$(series)
printf '%8d flows: %7d bytes, %d series, %.1f ms (median of %d), %.1f ms at worst\n' 0 "$bytes" "$series" "$median" "$SCRAPES" "$worst"
traffic=
for n in $CLIENTS; do
	LAB_PATIENCE=150 lab_rcperf_between "10.101.1.$n" "10.101.2.$n" "$LAB_DIR/client.$n.json" --port $((18515 + n)) --cm --qps $EACH \
		--depth 1 --size 64 --every-ms 2000 --timeout-ms 2000 --secs 60 &
	traffic="$traffic $!"
done
lab_wait 60 enough_flows || lab_die "only $(flows) flows after 60 s"
read -r bytes median worst < <(scrapes)
printf '%8d flows: %7d bytes, %d series, %.1f ms (median of %d), %.1f ms at worst\n' "$(flows)" "$bytes" \
	"$(series)" "$median" "$SCRAPES" "$worst"
[ "$(series)" = "$series" ] || lab_die "there are more series with flows than without"
verdict "a scrape with $QPS flows, ms" "$median" '<' 50
verdict "a scrape with $QPS flows, bytes" "$bytes" '<' 1000000
kill $traffic 2>/dev/null
wait $traffic 2>/dev/null
true
