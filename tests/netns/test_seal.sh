#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Authentication: the control channel's TLS, and replayed, forged and flooding datagrams.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

PORT=4790

link() {
	lab_edges_stop
	lab_edges
	lab_link_up
}

# --- control channel ---

# Both edges must report why there is no link.
refused() { # what edge B says, what edge A says
	lab_edges_stop
	rm -f "$LAB_DIR"/[ab]/log
	lab_edges
	lab_wait 5 grep -qE "$1" "$LAB_DIR/b/log" || why "edge B does not say it: $(tail -1 "$LAB_DIR/b/log")" || return
	lab_wait 5 grep -qE "$2" "$LAB_DIR/a/log" || why "edge A does not say it: $(tail -1 "$LAB_DIR/a/log")" || return
	[ "$(lab_status b '.links[0].state')" = waiting ] || why "there is a link" || return
	[ "$(lab_status b '.links[0].peer.met')" = false ] || why "it got as far as hello" || return
	NOTE=$(lab_status b '.links[0].peer.trouble' | cut -c1-100)
}

keys_of() { # directory: edge A uses the keys in it
	rm -rf "$LAB_DIR/keys/a"
	cp -r "$1" "$LAB_DIR/keys/a"
}

wrong_ca() {
	"$LAB_BIN/longreach" keygen link --dir "$LAB_DIR/other" >/dev/null || return
	keys_of "$LAB_DIR/other/a"
	cp "$LAB_DIR/right/a/link.ca.crt" "$LAB_DIR/keys/a/"
	refused "certificate is not signed by CA=" "refuses this edge's certificate: its CA= did not sign it"
}

# A CA with a known key: both edges trust it, and the arguments describe A's certificate.
own_ca() { # days-of-A's-certificate name
	local d=$LAB_DIR/own s
	rm -rf "$d"
	mkdir -p "$d"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$d/ca.key" -out "$d/ca.crt" -days 9 \
		-subj /CN=own -addext keyUsage=critical,keyCertSign 2>/dev/null || return
	for s in a b; do
		openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$d/$s.key" -out "$d/$s.csr" \
			-subj "/CN=$s" 2>/dev/null || return
		printf 'subjectAltName=DNS:%s\n' "$([ $s = a ] && echo "$2" || echo b.link)" >"$d/$s.ext"
		openssl x509 -req -in "$d/$s.csr" -CA "$d/ca.crt" -CAkey "$d/ca.key" \
			-days "$([ $s = a ] && echo "$1" || echo 9)" -extfile "$d/$s.ext" -out "$d/$s.crt" 2>/dev/null || return
		chmod 600 "$d/$s.key"
		cp "$d/$s.key" "$LAB_DIR/keys/$s/link.key"
		cp "$d/$s.crt" "$LAB_DIR/keys/$s/link.crt"
		cp "$d/ca.crt" "$LAB_DIR/keys/$s/link.ca.crt"
	done
}

# Keys made without `longreach keygen` work as well: otherwise the two tests below would prove nothing.
other_makers_certificates() {
	own_ca 9 a.link || why "openssl failed" || return
	link
}

# The edge itself would not start with it: the certificate expires while it runs.
expired() {
	own_ca 9 a.link || why "openssl failed" || return
	openssl x509 -req -in "$LAB_DIR/own/a.csr" -CA "$LAB_DIR/own/ca.crt" -CAkey "$LAB_DIR/own/ca.key" -days -1 \
		-extfile "$LAB_DIR/own/a.ext" -out "$LAB_DIR/own/old.crt" 2>/dev/null || why "openssl failed" || return
	cp "$LAB_DIR/own/old.crt" "$LAB_DIR/keys/a/link.crt"
	lab_conf a >"$LAB_DIR/expired.conf"
	! "$LAB_BIN/longreachd" --check-config "$LAB_DIR/expired.conf" >"$LAB_DIR/out" 2>&1 ||
		why "--check-config does not notice" || return
	grep -q 'has expired' "$LAB_DIR/out" || why "it says: $(cat "$LAB_DIR/out")" || return
	lab_edges_stop
	rm -f "$LAB_DIR"/[ab]/log
	lab_edge_start b
	lab_wait 5 lab_listens eb $PORT || why "edge B does not listen" || return
	lab_in ea timeout 5 openssl s_client -connect "192.0.2.2:$PORT" -bind 192.0.2.1:0 -cert "$LAB_DIR/own/old.crt" \
		-key "$LAB_DIR/own/a.key" -tls1_3 -quiet </dev/null >/dev/null 2>"$LAB_DIR/client.tls"
	lab_wait 3 grep -q "other edge's certificate expired on" "$LAB_DIR/b/log" ||
		why "edge B says: $(tail -1 "$LAB_DIR/b/log")" || return
	NOTE=$(lab_status b '.links[0].peer.trouble' | cut -c1-100)
}

wrong_name() {
	own_ca 9 c.link || why "openssl failed" || return
	refused "certificate is for c.link: PeerName=a.link is expected" "refuses this edge's certificate"
}

older_tls() {
	lab_edges_stop
	rm -f "$LAB_DIR"/[ab]/log
	lab_edge_start b
	lab_wait 5 lab_listens eb $PORT || why "edge B does not listen" || return
	! lab_in ea timeout 20 openssl s_client -connect "192.0.2.2:$PORT" -bind 192.0.2.1:0 -tls1_2 \
		-cert "$LAB_DIR/keys/a/link.crt" -key "$LAB_DIR/keys/a/link.key" </dev/null >/dev/null 2>"$LAB_DIR/client.tls" ||
		why "TLS 1.2 was taken" || return
	grep -q 'alert protocol version' "$LAB_DIR/client.tls" || why "$(tail -1 "$LAB_DIR/client.tls")" || return
	lab_wait 10 grep -q '1.3 is expected' "$LAB_DIR/b/log" || why "edge B says: $(tail -1 "$LAB_DIR/b/log")" || return
	NOTE=$(lab_status b '.links[0].peer.trouble' | cut -c1-100)
}

right_keys() {
	rm -rf "$LAB_DIR/keys"
	cp -r "$LAB_DIR/right" "$LAB_DIR/keys"
}

# --- datagrams ---

drops_at_b() { # reason
	lab_status b ".links[0].drops.$1"
}

rekeys() {
	local at_a=0 at_b=0 tries=0
	# a daemon under a sanitizer takes longer to its 1,000 datagrams
	while { [ "$at_a" -lt 2 ] || [ "$at_b" -lt 2 ]; } && [ $((tries++)) -lt 20 ]; do
		lab_rcperf --secs 3 --depth 32 --bidir || why "contents, order or count are wrong" || return
		at_a=$(lab_status a '.links[0].counters.rekeys_tx')
		at_b=$(lab_status b '.links[0].counters.rekeys_tx')
	done
	[ "$at_a" -ge 2 ] && [ "$at_b" -ge 2 ] || why "only $at_a and $at_b rekeys" || return
	for e in a b; do
		[ "$(lab_status $e '.links[0].drops | .wan_bad_tag + .wan_bad_key + .wan_unsealed')" = 0 ] ||
			why "edge $e dropped datagrams" || return
	done
	NOTE="$at_a and $at_b rekeys, $(lab_result '.goodput_gbps * 1000 | round / 1000') Gbit/s"
}

# Both edges get certificates of another CA and reload them; the session goes on. Then edge A, which has only the new ones, can
# connect only to an edge B that has them.
new_certificates() {
	local e pid
	pid=$(lab_edge_child b)
	lab_load --depth 32 --bidir || why "no traffic" || return
	own_ca 9 a.link || why "openssl failed" || return
	for e in a b; do
		lab_client $e reload >"$LAB_DIR/reload.out" 2>&1 || why "$(head -1 "$LAB_DIR/reload.out")" || return
	done
	lab_load_moves || why "no traffic with the new ones"
	lab_load_end || why "contents, order or count are wrong" || return
	[ -z "$WHY" ] || return
	lab_edge_stop a
	lab_edge_start a
	lab_link_up 2>/dev/null || why "edge B: $(lab_status b '.links[0].peer.trouble')" || return
	[ "$(lab_edge_child b)" = "$pid" ] || why "edge B is another process" || return
	lab_rcperf --size 4096 --iters 20 || why "no traffic afterwards" || return
}

# The next start would fail with this file, so the reload fails, and the keys in force stay.
key_error_is_in_the_report() {
	cp "$LAB_DIR/keys/a/link.key" "$LAB_DIR/good.key"
	cp "$LAB_DIR/keys/b/link.key" "$LAB_DIR/keys/a/link.key"
	! lab_client a reload >"$LAB_DIR/reload.out" 2>&1 || why "reload was content: $(head -1 "$LAB_DIR/reload.out")" || return
	NOTE=$(grep -o 'Key=.*' "$LAB_DIR/reload.out" | sed "s|$LAB_DIR/||g" | cut -c1-100)
	[ -n "$NOTE" ] || why "it says: $(head -1 "$LAB_DIR/reload.out")" || return
	chmod 644 "$LAB_DIR/good.key"
	cp -p "$LAB_DIR/good.key" "$LAB_DIR/keys/a/link.key"
	! lab_client a reload >"$LAB_DIR/reload.out" 2>&1 || why "a key that all may read was taken" || return
	lab_link_is_up || why "the link is not up" || return
	lab_rcperf --size 4096 --iters 20 || why "no traffic" || return
	chmod 600 "$LAB_DIR/keys/a/link.key"
	lab_client a reload >"$LAB_DIR/reload.out" 2>&1 || why "$(head -1 "$LAB_DIR/reload.out")"
}

# In status, in the log from 30 days on, and in the metrics.
days_left() {
	own_ca 6 a.link || why "openssl failed" || return
	sleep 1.1 # whole days: not six any more
	LAB_DAEMON_ARGS="--metrics $LAB_DIR/a/metrics" lab_edge_restart a || return
	lab_client b reload >/dev/null
	lab_link_up || return
	[ "$(lab_status a '.links[0].certificate.days_left')" = 5 ] && [ "$(lab_status a '.links[0].ca.days_left')" = 8 ] ||
		why "status: $(lab_status a '.links[0] | [.certificate, .ca] | tojson')" || return
	lab_client a status | grep -q 'certificate valid for 5 days, CA valid for 8 days' || why "not in the table" || return
	grep -q 'certificate expires in 5 days' "$LAB_DIR/a/log" || why "the log does not say it" || return
	grep -q "CA's certificate expires in 8 days" "$LAB_DIR/a/log" || why "the log does not tell of the CA" || return
	curl_metrics | grep -q '^longreach_certificate_expires_timestamp_seconds{.*certificate="edge"} 1' ||
		why "not in the metrics"
}

curl_metrics() {
	printf 'GET /metrics HTTP/1.0\r\n\r\n' | socat -t 5 - "UNIX-CONNECT:$LAB_DIR/a/metrics"
}

lab_edge_restart() { # edge
	lab_edge_stop "$1"
	rm -f "$LAB_DIR/$1/log"
	lab_edge_start "$1"
}

# A set of an unknown CA, brought to one edge after the other, each with a reload; then a new connection.
rotation() { # first second
	local e new=$LAB_DIR/new-$1
	"$LAB_BIN/longreach" keygen link --dir "$new" >/dev/null || why "keygen failed" || return
	for e in "$1" "$2"; do
		cp "$new/$e"/* "$LAB_DIR/keys/$e/"
		lab_client $e reload >"$LAB_DIR/reload.out" 2>&1 || why "$(head -1 "$LAB_DIR/reload.out")" || return
		lab_link_is_up || why "the link is not up with new keys at $e" || return
		lab_rcperf --size 4096 --iters 20 || why "no traffic with new keys at $e" || return
	done
	# a connection that was made with the new set at one edge only comes about once the other has it
	"$LAB_BIN/longreach" keygen link --dir "$new.2" >/dev/null || why "keygen failed" || return
	cp "$new.2/$1"/* "$LAB_DIR/keys/$1/"
	lab_edge_restart "$1"
	lab_wait 5 says_refused "$1" || why "edge $1: $(lab_status "$1" '.links[0] | .state + ": " + .peer.trouble')" || return
	cp "$new.2/$2"/* "$LAB_DIR/keys/$2/"
	lab_client "$2" reload >"$LAB_DIR/reload.out" 2>&1 || why "$(head -1 "$LAB_DIR/reload.out")" || return
	lab_wait 5 lab_link_is_up || why "edge $1: $(lab_status "$1" '.links[0].peer.trouble')" || return
	lab_rcperf --size 4096 --iters 20 || why "no traffic afterwards"
}

says_refused() { # edge
	[ "$(lab_status "$1" '.links[0].state')" = waiting ] && lab_status "$1" '.links[0].peer.trouble' | grep -q 'CA='
}

captured() { # datagrams that edge B received: a datagram lost on the way would be no replay
	ls "$LAB_DIR"/pcap/b/*wan*
}

capture_has() { # bytes
	[ "$(stat -c %s "$(captured)")" -ge "$1" ]
}

# Counts in FOUND the address pairs of the hosts' packets in the captured datagrams.
packets_in_clear() { # none | cipher
	rm -rf "$LAB_DIR/pcap"
	mkdir -p "$LAB_DIR"/pcap/{a,b}
	LAB_PCAP=$LAB_DIR/pcap LAB_ENCRYPTION=$1 link || return
	lab_rcperf --size 8192 --iters 100 || return
	lab_wait 3 capture_has $((100 * 8192)) || return # it is written when the worker rests
	FOUND=$(LC_ALL=C grep -zaoP '\x0a\x65\x01\x02\x0a\x65\x02\x02' "$(captured)" | tr -cd '\0' | wc -c)
}

cleartext_nowhere() {
	local open
	packets_in_clear none || why "no traffic unsealed" || return
	open=$FOUND
	packets_in_clear aes-256-gcm || why "no traffic sealed" || return
	cp "$(captured)" "$LAB_DIR/replay.pcap"
	[ "$open" -gt 100 ] || why "the test itself finds only $open packets unsealed" || return
	[ "$FOUND" = 0 ] || why "$FOUND packets in the clear" || return
	NOTE="unsealed, $open packets can be read on the line; sealed, $FOUND"
}

# The drops by any reason: a known number, or a key that is no longer kept. Empty if edge B does not answer.
dropped_at_b() {
	lab_status b '.links[0].drops | to_entries | map(select(.key | startswith("wan_")) | .value) | add'
}

all_dropped() { # before, how many
	[ "$(dropped_at_b)" -ge $(($1 + $2)) ]
}

sent_to_host() {
	lab_status b '.links[0].counters.lan_tx_packets'
}

host_has_quiet() {
	local before
	before=$(sent_to_host)
	sleep 0.5
	[ "$(sent_to_host)" = "$before" ]
}

# Twice: datagrams that came before edge B had the session were refused then, and are no replays the first time.
replayed() {
	local taken before n now
	replay "$LAB_DIR/replay.pcap" >/dev/null || why "cannot replay" || return
	lab_wait 10 host_has_quiet
	before=$(dropped_at_b)
	taken=$(sent_to_host)
	[ -n "$before" ] && [ -n "$taken" ] || why "edge B does not say what it dropped" || return
	n=$(replay "$LAB_DIR/replay.pcap") || why "cannot replay" || return
	lab_wait 5 all_dropped "$before" "$n"
	now=$(dropped_at_b)
	[ $((now - before)) = "$n" ] && [ "$n" -ge 10 ] ||
		why "$n replayed, $((now - before)) dropped: $(lab_status b '.links[0].drops | tojson')" || return
	[ "$(sent_to_host)" = "$taken" ] || why "something reached a host" || return
	NOTE="$n of $n dropped"
}

# The UDP payloads of a capture once more, from A's address to B, 1 ms apart, at most a hundred. Prints how many.
replay() {
	tshark -r "$1" -Y 'ip.dst == 192.0.2.2' -T fields -e udp.payload 2>/dev/null >"$LAB_DIR/payloads"
	lab_in ea perl -MIO::Socket::INET -ne '
		BEGIN { $s = IO::Socket::INET->new(Proto => "udp", LocalAddr => "192.0.2.1", PeerAddr => shift) or die $! }
		chomp;
		next if $_ eq "" || $n == 100;
		$s->send(pack("H*", $_)) or die $!;
		$n++;
		select(undef, undef, undef, 0.001);
		END { print $n + 0 }' "192.0.2.2:$PORT" "$LAB_DIR/payloads"
}

bad_epochs() { # count
	[ "$(drops_at_b wan_bad_epoch)" -ge "$1" ]
}

replayed_into_another_session() {
	local epoch0 n
	lab_edge_stop a
	lab_edge_start a
	lab_link_up || return
	epoch0=$(drops_at_b wan_bad_epoch)
	n=$(replay "$LAB_DIR/replay.pcap") || why "cannot replay" || return
	lab_wait 3 bad_epochs $((epoch0 + n)) || why "$n replayed, $(($(drops_at_b wan_bad_epoch) - epoch0)) dropped" || return
	lab_rcperf --size 4096 --iters 20 || why "no traffic afterwards" || return
	NOTE="$n of $n dropped as wan_bad_epoch"
}

# --- floods ---

# 100 bytes a datagram, six at a time, a third each: a header with a made-up epoch, another version, and the right
# version from a host that is not the other edge. Prints how many went.
garbage() { # times
	lab_in ea perl -MIO::Socket::INET -e '
		($to, $times) = @ARGV;
		($peer, $host) = map { IO::Socket::INET->new(Proto => "udp", LocalAddr => $_, PeerAddr => $to) or die $! }
			"192.0.2.1", "192.0.2.9";
		$fill = "x" x 84;
		for (1 .. $times) {
			for (1 .. 2) {
				$peer->send(pack("CCCCNQ>", 0x4c, 0, 0, 0x80, rand(2 ** 32), $n) . $fill);
				$peer->send(pack("CCCCNQ>", 0x4d, 0, 0, 0x80, rand(2 ** 32), $n) . $fill);
				$host->send(pack("CCCCNQ>", 0x4c, 0, 0, 0x80, rand(2 ** 32), $n) . $fill);
				$n += 3;
			}
			select(undef, undef, undef, 0.0002);
		}
		print $n' "192.0.2.2:$PORT" "$1"
}

worker_sleeps() { # a|b: how often its worker has gone to sleep
	local task
	task=$(grep -l '^lr:link:0' "/proc/$(lab_edge_child "$1")"/task/*/comm)
	awk '/^voluntary/ { print $2 }' "${task%comm}status"
}

drops_by_name() {
	lab_status b '.links[0].drops | "\(.wan_bad_epoch) \(.wan_bad_version) \(.wan_foreign) \(.wan_flood + .wan_kernel)"'
}

flooded() {
	local n before after all sleeps ms i now no_room
	lab_in ea ip addr add 192.0.2.9/24 dev wan0
	link || return
	read -ra before < <(drops_by_name)
	all=$(dropped_at_b)
	sleeps=$(worker_sleeps b)
	ms=$(date +%s%3N)
	n=$(garbage 3000) || why "cannot send" || return
	ms=$(($(date +%s%3N) - ms))
	sleeps=$(($(worker_sleeps b) - sleeps))
	lab_wait 5 all_dropped "$all" "$n"
	read -ra after < <(drops_by_name)
	# on a busy machine some find no room at the socket, where they have no name yet
	no_room=$((after[3] - before[3]))
	for i in 0 1 2; do
		now=$((after[i] - before[i]))
		[ $now -le $((n / 3)) ] && [ $now -ge $((n / 3 - no_room)) ] || why "$n sent, dropped ${before[*]}, then ${after[*]}" || return
	done
	[ $no_room -lt $((n / 2)) ] || why "$no_room of $n found no room" || return
	[ "$sleeps" -lt $((ms * 4 / 5)) ] || why "$n datagrams woke the worker $sleeps times in $ms ms" || return
	lab_rcperf --size 4096 --iters 20 || why "no traffic afterwards" || return
	NOTE="$n datagrams, all counted; in $ms ms the worker got up $sleeps times"
}

lab_up
cp -r "$LAB_DIR/keys" "$LAB_DIR/right"
lab_line --rate $LAB_LINE_RATE
check "an edge of another CA is refused" wrong_ca
right_keys
check "certificates of another maker are taken" other_makers_certificates
check "a certificate that has expired is refused" expired
check "a certificate of the right CA for another name is refused" wrong_name
right_keys
check "TLS 1.2 is refused" older_tls

lab_server $B_HOST
lab_line_set 30
LAB_EXTRA=Tuning.RekeyAfter=1000
check "the link comes up sealed" link
check "a rekey every 1,000 datagrams under load loses nothing" rekeys
check "new certificates come with a reload, under load" new_certificates
check "a reload tells of a key that a start would refuse" key_error_is_in_the_report
check "how long certificates are valid is told" days_left
check "rotation: edge A first" rotation a b
check "rotation: edge B first" rotation b a
check "nothing of the payload is seen on the line" cleartext_nowhere
check "a replay of captured datagrams changes nothing" replayed
check "nor does one into a later session" replayed_into_another_session
check "a flood of garbage is counted by name and wakes nobody" flooded
check_end
