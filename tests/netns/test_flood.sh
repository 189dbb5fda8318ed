#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Floods from who may not take part: a user without rights on edge A's machine (from A's own address), and another box
# on the WAN. During each, a new session must come up within 5 s of the other edge's start, and the goodput of a running
# one must be at least 0.95 of what it is without.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

PORT=4790
RATE=100M # far below what the machine can do: a flood's own work must not be what slows the link down
FLOOD_PID=

flood_start() { # who script arguments...: who is user (of edge A's machine, no rights) or box (another address, root)
	local who=$1
	shift
	if [ "$who" = user ]; then
		ip netns exec "$LAB_ID-ea" setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all nice \
			perl "$@" >"$LAB_DIR/flood.out" 2>&1 &
	else
		ip netns exec "$LAB_ID-ea" nice perl "$@" >"$LAB_DIR/flood.out" 2>&1 &
	fi
	FLOOD_PID=$!
	sleep 0.5
	kill -0 $FLOOD_PID 2>/dev/null || why "no flood: $(tail -1 "$LAB_DIR/flood.out")"
}

flood_stop() {
	kill $FLOOD_PID 2>/dev/null
	wait $FLOOD_PID 2>/dev/null
	FLOOD_PID=
}

scripts() {
	# connections from an address, 1,000 a second, each held for as long as 500 newer ones take; with first bytes or none
	cat >"$LAB_DIR/connect.pl" <<-'END'
		use IO::Socket::INET; use Socket;
		my ($from, $to, $port, $file) = @ARGV;
		my $first = "";
		if ($file) { open(my $f, "<", $file) or die $!; binmode $f; local $/; $first = <$f>; }
		my @held;
		$SIG{PIPE} = "IGNORE";
		while (1) {
			my $s = IO::Socket::INET->new(Proto => "tcp", LocalAddr => $from, PeerAddr => "$to:$port", Blocking => 0,
				Timeout => 1);
			if ($s) {
				push @held, $s;
				push @talk, $s if $first ne "";
			}
			for my $t (splice @talk) { syswrite($t, $first) // push(@talk, $t); }
			splice @talk, 0, @talk - 50 if @talk > 50;
			shift @held if @held > 500;
			select(undef, undef, undef, 0.001);
		}
	END
	cat >"$LAB_DIR/syn.pl" <<-'END'
		use Socket;
		my ($to, $port) = @ARGV;
		socket(my $s, PF_INET, SOCK_RAW, 255) or die $!;
		sub sum { my $n = 0; $n += $_ for unpack("n*", $_[0] . (length($_[0]) % 2 ? "\0" : "")); $n = ($n & 0xffff) + ($n >> 16) while $n >> 16; ~$n & 0xffff }
		my $dst = inet_aton($to);
		while (1) {
			my $src = inet_aton("192.0.2." . (100 + int(rand(100))));
			my $tcp = pack("nnNNCCnnn", 1024 + int(rand(60000)), $port, int(rand(2 ** 32)), 0, 5 << 4, 2, 64000, 0, 0);
			my $ck = sum($src . $dst . pack("CCn", 0, 6, length $tcp) . $tcp);
			substr($tcp, 16, 2) = pack("n", $ck);
			my $ip = pack("CCnnnCCna4a4", 0x45, 0, 40, int(rand(65536)), 0, 64, 6, 0, $src, $dst);
			send($s, $ip . $tcp, 0, pack_sockaddr_in(0, $dst)) or die $!;
			select(undef, undef, undef, 0.0005);
		}
	END
	# datagrams to the link's port and to others, of garbage and of what looks like a header
	cat >"$LAB_DIR/udp.pl" <<-'END'
		use IO::Socket::INET;
		my ($from, $to, $port) = @ARGV;
		my $link = IO::Socket::INET->new(Proto => "udp", LocalAddr => $from, PeerAddr => "$to:$port") or die $!;
		my $s = IO::Socket::INET->new(Proto => "udp", LocalAddr => $from) or die $!;
		my $fill = "x" x 84;
		while (1) {
			for (1 .. 4) { $link->send(pack("CCCCNQ>", 0x4c, 0, 0, 0x80, int(rand(2 ** 32)), $n++) . $fill); }
			$s->send($fill, 0, pack_sockaddr_in(1 + int(rand(65535)), inet_aton($to)));
			select(undef, undef, undef, 0.001);
		}
	END
	# what a TLS client says first
	lab_in ea ip addr add 192.0.2.9/24 dev wan0
	lab_in ea socat -u TCP-LISTEN:4999,bind=127.0.0.1,reuseaddr "CREATE:$LAB_DIR/hello.bin" &
	local pid=$!
	lab_wait 2 lab_listens ea 4999
	lab_in ea timeout 2 openssl s_client -connect 127.0.0.1:4999 -tls1_3 </dev/null >/dev/null 2>&1
	wait $pid
	[ "$(stat -c %s "$LAB_DIR/hello.bin")" -gt 100 ] || why "no ClientHello"
	chmod 755 "$LAB_DIR"
	chmod 644 "$LAB_DIR"/*.pl "$LAB_DIR/hello.bin"
}

goodput() {
	LAB_PATIENCE=20 lab_rcperf --size 65536 --depth 16 --secs 3 || return
	lab_goodput_gbps
}

# Of three each time the best: the machine has other work, too.
baseline() {
	local best=0 g i
	for i in 1 2 3; do
		g=$(goodput) || why "no traffic" || return
		holds "$g > $best" && best=$g
	done
	BASE=$best
	NOTE="$BASE Gbit/s"
}

session_is_new() { # before
	[ "$(lab_status b '.links[0].peer.sessions')" -gt "$1" ] && lab_link_is_up
}

under_flood() { # who script arguments...
	local before ms g best=0 i r
	flood_start "$@" || return
	for i in 1 2 3; do
		g=$(goodput) || why "no traffic" || return
		holds "$g > $best" && best=$g
		holds "$best / $BASE >= 0.97" && break
	done
	r=$(awk "BEGIN { printf \"%.3f\", $best / $BASE }")
	before=$(lab_status b '.links[0].peer.sessions')
	lab_edge_stop a
	lab_edge_start a
	lab_wait 5 edge_a_answers || why "edge A does not start" || return
	ms=$(date +%s%3N)
	lab_wait 6 session_is_new "$before"
	i=$?
	ms=$(($(date +%s%3N) - ms))
	flood_stop
	NOTE="goodput $r of without, a new session after $ms ms, $(lab_status b '.links[0].peer.refused_connections') refused"
	[ $i = 0 ] && [ $ms -lt 5000 ] || why "no session after $ms ms: $(lab_status b '.links[0].peer.trouble')" || return
	holds "$r >= $LEAST" || why "$NOTE"
}

edge_a_answers() {
	[ "$(lab_status a '.links[0].name')" = link ]
}

# FULL=1: every flood, and goodput as on a machine with nothing else to do.
LEAST=0.8
[ -z "${FULL:-}" ] || LEAST=0.95

lab_up
lab_line --rate $LAB_LINE_RATE --km 30
lab_server $B_HOST
LAB_RATE=$RATE
lab_edges
check "the link comes up" lab_link_up
check "what the floods are made of" scripts
check "goodput without" baseline
check "a user connects" under_flood user "$LAB_DIR/connect.pl" 192.0.2.1 192.0.2.2 $PORT
[ -z "${FULL:-}" ] || check "a user says TLS hello" under_flood user "$LAB_DIR/connect.pl" 192.0.2.1 192.0.2.2 $PORT "$LAB_DIR/hello.bin"
[ -z "${FULL:-}" ] || check "a user sends datagrams to every port" under_flood user "$LAB_DIR/udp.pl" 192.0.2.1 192.0.2.2 $PORT
[ -z "${FULL:-}" ] || check "another box connects" under_flood box "$LAB_DIR/connect.pl" 192.0.2.9 192.0.2.2 $PORT
check "another box says TLS hello" under_flood box "$LAB_DIR/connect.pl" 192.0.2.9 192.0.2.2 $PORT "$LAB_DIR/hello.bin"
check "another box sends SYNs from everywhere" under_flood box "$LAB_DIR/syn.pl" 192.0.2.2 $PORT
[ -z "${FULL:-}" ] || check "another box sends datagrams to every port" under_flood box "$LAB_DIR/udp.pl" 192.0.2.9 192.0.2.2 $PORT
check_end
