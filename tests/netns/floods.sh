# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# floods.sh - floods from foreign senders: an unprivileged user on edge A's machine (from A's own address), and another
# machine on the WAN. To be sourced after lab.sh, by test_flood.sh and bench/bench_beside.sh.
#
# flood_scripts once, with a line; then flood_start USER|BOX NAME, flood_stop. FLOODS has the names.

PORT=4790
FLOOD_PID=

# Sender, kind of flood, and its name.
FLOODS=(
	"user connects|a user connects"
	"user hellos|a user says TLS hello"
	"user datagrams|a user sends datagrams to every port"
	"box connects|another box connects"
	"box hellos|another box says TLS hello"
	"box syns|another box sends SYNs from everywhere"
	"box datagrams|another box sends datagrams to every port"
)

# user: of edge A's machine, no rights; box: another address, root.
flood_start() { # user|box connects|hellos|datagrams|syns
	local from=192.0.2.9 as=() what
	if [ "$1" = user ]; then
		from=192.0.2.1
		as=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all)
	fi
	case $2 in
	connects) what=(connect.pl $from 192.0.2.2 $PORT) ;;
	hellos) what=(connect.pl $from 192.0.2.2 $PORT "$LAB_DIR/hello.bin") ;;
	datagrams) what=(udp.pl $from 192.0.2.2 $PORT) ;;
	syns) what=(syn.pl 192.0.2.2 $PORT) ;;
	esac
	ip netns exec "$LAB_ID-ea" "${as[@]}" nice perl "$LAB_DIR/${what[0]}" "${what[@]:1}" >"$LAB_DIR/flood.out" 2>&1 &
	FLOOD_PID=$!
	sleep 0.5 # it ends at once if it cannot send
	kill -0 $FLOOD_PID 2>/dev/null && return
	echo "no flood: $(tail -1 "$LAB_DIR/flood.out")" >&2
	return 1
}

flood_stop() {
	kill $FLOOD_PID 2>/dev/null
	wait $FLOOD_PID 2>/dev/null
	FLOOD_PID=
}

flood_scripts() {
	# connections from an address, 1,000 a second, each kept open while 500 newer ones come; with first bytes or without
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
	# datagrams to the link's port and to others, with random bytes or a plausible header
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
	# a TLS ClientHello
	lab_in ea ip addr add 192.0.2.9/24 dev wan0
	lab_in ea socat -u TCP-LISTEN:4999,bind=127.0.0.1,reuseaddr "CREATE:$LAB_DIR/hello.bin" &
	local pid=$!
	lab_wait 2 lab_listens ea 4999
	lab_in ea timeout 2 openssl s_client -connect 127.0.0.1:4999 -tls1_3 </dev/null >/dev/null 2>&1
	wait $pid
	[ "$(stat -c %s "$LAB_DIR/hello.bin")" -gt 100 ] || return
	chmod 755 "$LAB_DIR"
	chmod 644 "$LAB_DIR"/*.pl "$LAB_DIR/hello.bin"
}
