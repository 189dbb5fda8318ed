#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The closed state: while a link's file exists the kernel forwards none of its RoCE, in any state of the daemon, although both
# edges forward and have routes. The line counts unsealed packets.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"
. "$(dirname "$0")/roce_closed.sh"

# An edge that cannot start; its log has the reason.
cannot_start() { # reason break mend
	lab_edge_stop a
	"$2"
	lab_edge_start a
	lab_wait 6 grep -qE "does not start.*$1" "$LAB_DIR/a/log" || why "it starts all the same, or does not say \"$1\"" ||
		{ "$3"; return 1; }
	stays_closed
	"$3"
	[ -z "$WHY" ]
}

wrong_key() {
	cp "$LAB_DIR/keys/a/link.key" "$LAB_DIR/key.saved"
	cp "$LAB_DIR/keys/b/link.key" "$LAB_DIR/keys/a/link.key"
}
right_key() { cp "$LAB_DIR/key.saved" "$LAB_DIR/keys/a/link.key"; }

take_port() {
	ip netns exec "$LAB_ID-ea" socat -u UDP-RECV:4790,bind=192.0.2.1 /dev/null 2>/dev/null &
	PORT_TAKER=$!
	lab_wait 2 eval 'lab_in ea ss -Hlun "sport = :4790" | grep -q .'
}
give_port() { kill $PORT_TAKER && wait $PORT_TAKER 2>/dev/null; }

eval "$(declare -f lab_conf | sed '1s/lab_conf/conf_with_port/')"
no_port() {
	lab_conf() { conf_with_port "$@" | sed 's/^LanPort=.*/LanPort=lan9/'; }
}
ports() {
	lab_conf() { conf_with_port "$@"; }
}

expire() {
	cp "$LAB_DIR/keys/a/link.crt" "$LAB_DIR/crt.saved"
	openssl x509 -in "$LAB_DIR/crt.saved" -signkey "$LAB_DIR/keys/a/link.key" -days -1 \
		-out "$LAB_DIR/keys/a/link.crt" 2>/dev/null
}
renew() { cp "$LAB_DIR/crt.saved" "$LAB_DIR/keys/a/link.crt"; }

too_much() { LAB_BUFFER=4000GiB; }
enough() { LAB_BUFFER=64MiB; }

stopped() { # signal
	lab_edge_stop a "$1"
	stays_closed
}

datagram() { # bytes address port
	head -c "$1" /dev/zero | lab_in ha socat -u -b "$1" - "UDP-SENDTO:$2:$3"
}

# Two fragments, of which the second has the UDP header: the first ends behind a destination options header.
hidden_port() {
	lab_in ha perl -e '
		use Socket qw(:DEFAULT inet_pton AF_INET6);
		my ($from, $to, $index, $mac) = @ARGV;
		socket(my $s, 17, SOCK_DGRAM, 0) or die $!;
		my $way = pack("SnlSCCa8", 17, 0x86dd, $index, 0, 0, 6, pack("H12", $mac =~ s/://gr));
		my $ip = sub { pack("NnCC", 6 << 28, length $_[0], 44, 64) . inet_pton(AF_INET6, $from) . inet_pton(AF_INET6, $to) . $_[0] };
		send($s, $ip->(pack("CCnN", 60, 0, 1, 7) . pack("CCCCN", 17, 0, 1, 4, 0)), 0, $way) or die $!;
		send($s, $ip->(pack("CCnN", 60, 0, 8, 7) . pack("nnnn", 4791, 4791, 24, 0) . "x" x 16), 0, $way) or die $!;
	' $A_HOST6 $B_HOST6 "$(lab_in ha cat /sys/class/net/rdma0/ifindex)" "$(lab_in ea cat /sys/class/net/lan0/address)"
}

on_the_line() { # hosts' packets from edge A; each counts twice, by its source and by its destination
	lab_in line nft list table netdev watch_wa |
		awk '{ for (i = 1; i < NF; i++) if ($i == "packets") n += $(i + 1) } END { print n / 2 }'
}

crossing() { # wanted command...: N, how many packets of hosts it brings from edge A onto the line
	local before
	before=$(on_the_line)
	"${@:2}"
	lab_wait 1 crossed "$before" "$1"
	sleep 0.1 # no more of them
	N=$(($(on_the_line) - before))
}

crossed() { # before wanted
	[ $(($(on_the_line) - $1)) -ge "$2" ]
}

# Only the first fragment has a port.
pieces_stay() {
	crossing 1 datagram 100 $B_HOST 9999
	[ $N = 1 ] || why "$N packets of a whole datagram crossed the line: the test sees nothing" || return
	crossing 1 datagram 100 "[$B_HOST6]" 9999 # neighbours are known from then on
	crossing 1 datagram 100 "[$B_HOST6]" 9999
	[ $N = 1 ] || why "$N packets of a whole datagram of IPv6 crossed the line" || return
	crossing 0 datagram 20000 $B_HOST 4791
	[ $N = 0 ] || why "$N pieces of a datagram to port 4791 crossed the line" || return
	crossing 0 datagram 20000 "[$B_HOST6]" 4791
	[ $N = 0 ] || why "$N pieces of IPv6 crossed the line" || return
	crossing 0 hidden_port
	[ $N = 0 ] || why "$N pieces of IPv6 with a hidden port crossed the line" || return
	crossing 3 lab_in ha busybox ping -q -c 1 -W 1 -s 20000 $B_HOST >/dev/null
	[ $N = 3 ] || why "$N of 3 pieces of a ping crossed the line"
}

# Where the kernel reassembles packets, as with conntrack, it knows the port of all fragments.
pieces_known() {
	lab_in ea nft -f - <<-'END' || return
		table inet tracked {
			chain pre {
				type filter hook prerouting priority 0; policy accept;
				ct state invalid counter
			}
		}
	END
	pieces_stay
	crossing 3 datagram 20000 $B_HOST 9999
	lab_in ea nft delete table inet tracked
	[ $N = 3 ] || why "${WHY:+$WHY; }$N of 3 pieces to another port crossed the line"
	[ -z "$WHY" ]
}

# Only the rules in front of the routing tables are left. For these no fragment has a port, not even the first.
pieces_stay_by_ip_rule() {
	local to
	lab_in ea nft flush ruleset
	crossing 0 datagram 20000 $B_HOST 4791
	[ $N = 0 ] || why "$N pieces of a datagram to port 4791 crossed the line" || return
	crossing 0 datagram 20000 "[$B_HOST6]" 4791
	[ $N = 0 ] || why "$N pieces of IPv6 crossed the line" || return
	for to in "$B_HOST:9999" "[$B_HOST6]:9999" "$B_HOST:9999,sp=65535" "$B_HOST:65535"; do
		crossing 1 datagram 100 "${to%:*}" "${to##*:}"
		[ $N = 1 ] || why "$N packets of a whole datagram to $to crossed the line" || return
	done
	crossing 3 lab_in ha busybox ping -q -c 1 -W 1 -s 20000 $B_HOST >/dev/null
	[ $N = 3 ] || why "$N of 3 pieces of a ping crossed the line"
}

# All IP passes again, and no rule without a link is left.
pieces_pass_without_a_link() {
	mv "$(lab_conf_path a)" "$LAB_DIR/link.saved"
	lab_close a || why "--close: $(tail -1 "$LAB_DIR/close.log")"
	mv "$LAB_DIR/link.saved" "$(lab_conf_path a)"
	[ -z "$WHY" ] || return
	! lab_ip ea rule show | grep -E '^9[0-9]:' >"$LAB_DIR/out" || why "left: $(head -1 "$LAB_DIR/out")" || return
	crossing 3 datagram 20000 $B_HOST 9999
	[ $N = 3 ] || why "$N of 3 pieces crossed the line"
}

before_any_daemon() {
	lab_edges_stop
	opens || return
	lab_conf a >"$(lab_conf_path a)"
	lab_close a || why "--close: $(tail -1 "$LAB_DIR/close.log")" || return
	stays_closed
}

# Half a file may name other prefixes than were meant.
half_a_file() {
	local path
	path=$(lab_conf_path a)
	lab_in ea nft flush ruleset
	cp "$path" "$path.saved"
	head -c 60 "$path.saved" >"$path"
	! lab_close a || why "--close is content with half a file" || return
	grep -q "link.conf" "$LAB_DIR/close.log" || why "--close does not name the file" || return
	stays_closed || return
	mv "$path.saved" "$path"
	lab_close a || why "--close: $(tail -1 "$LAB_DIR/close.log")" || return
	! lab_in ea nft list table inet longreach >/dev/null 2>&1 || why "all RoCE is still closed"
}

# The target may be on a file system that is mounted later.
file_without_its_target() {
	local path
	path=$(lab_conf_path a)
	mv "$path" "$LAB_DIR/target"
	ln -s "$LAB_DIR/away" "$path"
	! lab_close a || why "--close is content without the target" || return
	grep -q "link.conf: points to a file that is not there: $LAB_DIR/away" "$LAB_DIR/close.log" ||
		why "--close says: $(tail -2 "$LAB_DIR/close.log")" || return
	! lab_in ea "$LAB_BIN/longreachd" --print-config --config-dir "$LAB_DIR/a" >"$LAB_DIR/out" 2>&1 ||
		why "--print-config is content" || return
	grep -q 'points to a file that is not there' "$LAB_DIR/out" || why "--print-config says: $(cat "$LAB_DIR/out")" || return
	lab_in ea "$LAB_BIN/longreachd" --owed --config-dir "$LAB_DIR/a" >"$LAB_DIR/out" 2>&1
	grep -q 'link.conf$' "$LAB_DIR/out" || why "--owed does not name the file" || return
	lab_in ea nft flush ruleset
	lab_close a
	stays_closed || return
	mv "$LAB_DIR/target" "$LAB_DIR/away"
	lab_close a || why "--close: $(tail -1 "$LAB_DIR/close.log")" || return
	! all_is_closed || why "all RoCE is still closed" || return
	rm "$path"
	mv "$LAB_DIR/away" "$path"
}

# The nft table can be flushed like any other, and no daemon runs to restore it. (No other rule closes RoCE here.)
half_a_file_and_a_flush() {
	local path family
	path=$(lab_conf_path a)
	mv "$path" "$path.saved"
	lab_close a
	opens || return
	head -c 60 "$path.saved" >"$path"
	! lab_close a || why "--close is content with half a file" || return
	lab_in ea nft flush ruleset
	stays_closed || return
	for family in -4 -6; do
		lab_ip ea $family rule show | grep -q 'dport 4791.*blackhole' || why "no rule for $family" || return
	done
	mv "$path.saved" "$path"
	lab_close a || why "--close: $(tail -1 "$LAB_DIR/close.log")" || return
	! lab_ip ea rule show | grep -q 'from all ipproto udp dport 4791' || why "all RoCE is still closed" || return
}

# RoCE is closed both ways for each two prefixes: a rule without its counterpart shows that one is missing.
rules_both_ways() {
	local rules
	rules=$(lab_ip ea rule show; lab_ip ea -6 rule show)
	sed -n 's/^90:.*from \([^ ]*\) to \([^ ]*\) ipproto.*/\1 \2/p' <<<"$rules" | sort >"$LAB_DIR/out"
	[ -s "$LAB_DIR/out" ] || why "no rule of the link is left" || return
	awk '{ print $2, $1 }' "$LAB_DIR/out" | sort | cmp -s - "$LAB_DIR/out" || why "a rule of the link is gone: $rules"
}

# The kernel cannot tell the rule that closes all RoCE from a rule of the link.
all_is_not_one_of_the_links() {
	local i
	for i in 1 2 3; do
		lab_close a || why "--close: $(tail -1 "$LAB_DIR/close.log")" || return
		rules_both_ways || return
	done
	head -c 60 "$(lab_conf_path a)" >"$(dirname "$(lab_conf_path a)")/half.conf"
	! lab_close a || why "--close is content with half a file beside a link" || return
	lab_ip ea rule show | grep -q 'from all ipproto udp dport 4791 blackhole' || why "half a file beside a link closes nothing" || return
	rules_both_ways || return
	rm "$(dirname "$(lab_conf_path a)")/half.conf"
	lab_close a && rules_both_ways
}

# A link that may still exist is not opened.
no_directory() {
	lab_close a || why "--close: $(tail -1 "$LAB_DIR/close.log")" || return
	! lab_in ea "$LAB_BIN/longreachd" --close --config-dir "$LAB_DIR/nowhere" >"$LAB_DIR/out" 2>&1 ||
		why "--close is content without its directory" || return
	rules_stand || why "the link's rules are gone: $(cat "$LAB_DIR/out")" || return
	lab_close a
}

# A user who fills /tmp must not keep rules from being set.
no_space() {
	cp "$(lab_conf_path a)" "$LAB_BIN/longreachd" "$LAB_SHM" # /tmp is another one there
	lab_in ea nft flush ruleset
	lab_in ea unshare -m sh -c "mount -t tmpfs -o size=4k none /tmp && mount -t tmpfs -o size=4k none /var/tmp &&
		cat /dev/zero >/tmp/full 2>/dev/null; exec '$LAB_SHM/longreachd' --close --config '$LAB_SHM/link.conf'" \
		>"$LAB_DIR/out" 2>&1 || why "--close: $(cat "$LAB_DIR/out")" || return
	rm "$LAB_SHM/longreachd"
	rules_stand || why "no rules"
}

file_gone() {
	mv "$(lab_conf_path a)" "$LAB_DIR/link.saved"
	lab_close a || why "--close: $(tail -1 "$LAB_DIR/close.log")" || return
	mv "$LAB_DIR/link.saved" "$(lab_conf_path a)"
	! lab_in ea nft list tables | grep -q longreach || why "rules are left: $(lab_in ea nft list tables)" || return
	opens
}

# One of two links: hosts .2 and .3, or .4 to .7, at a port of its own.
one_of_two() { # hosts port
	lab_conf a | sed -E "s,(Prefix=10\\.101\\.[12])\\.0/24,\\1.$1/30,; /Prefix=10\\.101\\.1[12]\\./d; /Prefix=fd00/d
		s,^LocalAddress=.*,&\\nPort=$2,"
}

# Every change of the tables of the link "asahikawa" takes two seconds.
slow_nft() {
	mkdir -p "$LAB_DIR/slow"
	cat >"$LAB_DIR/slow/nft" <<-END
		#!/bin/sh
		case "\$*" in
		*list*) exec $(command -v nft) "\$@" ;;
		esac
		cat >"$LAB_DIR/slow/\$\$" || exit
		! grep -q longreach_asahikawa "$LAB_DIR/slow/\$\$" || sleep 2
		exec $(command -v nft) "\$@" <"$LAB_DIR/slow/\$\$"
	END
	chmod +x "$LAB_DIR/slow/nft"
}

two_run() { [ "$(lab_client a status --json | jq '.links | length')" = "$1" ]; }

# A host tries again and again to connect to the other site's.
tries() { # host
	local until=$((SECONDS + 9))
	while [ $SECONDS -lt $until ]; do
		LAB_PATIENCE=1 lab_rcperf_between "10.101.1.$1" "10.101.2.$1" "$LAB_DIR/load$1.out" --port "1851$1" --iters 5 \
			--depth 1 --size 4096
	done
}

# Both files of a daemon get other names, and a link that starts first takes long.
renamed_under_load() {
	local before pids i
	lab_edges_stop
	mkdir -p "$LAB_DIR/a" "$LAB_SHM/a"
	one_of_two 0 4790 >"$LAB_DIR/a/osaka.conf"
	one_of_two 4 4792 >"$LAB_DIR/a/tokyo.conf"
	slow_nft
	PATH="$LAB_DIR/slow:$PATH" ip netns exec "$LAB_ID-ea" "$LAB_BIN/longreachd" --control "$LAB_DIR/a/control" \
		--config-dir "$LAB_DIR/a" >>"$LAB_DIR/a/log" 2>&1 &
	LAB_EDGE_PID[a]=$!
	lab_wait 5 two_run 2 || why "the links do not start: $(tail -1 "$LAB_DIR/a/log")" || return
	lab_server 10.101.2.2 --port 18512
	lab_server 10.101.2.4 --port 18514
	before=$(seen)
	pids=
	for i in 2 4; do
		tries $i &
		pids="$pids $!"
	done
	sleep 1
	mv "$LAB_DIR/a/osaka.conf" "$LAB_DIR/a/sendai.conf"
	mv "$LAB_DIR/a/tokyo.conf" "$LAB_DIR/a/wakkanai.conf"
	lab_conf a | sed -E 's,Prefix=10\.101\.([12])\.0/24,Prefix=10.103.\1.0/24,; /Prefix=10\.101\./d; /Prefix=fd00/d
		s,^LocalAddress=.*,&\nPort=4794,' >"$LAB_DIR/a/asahikawa.conf"
	# longreach does not wait for longer than ten seconds
	lab_client a reload >"$LAB_DIR/out" 2>&1 || grep -q 'did not answer within' "$LAB_DIR/out" || why "$(cat "$LAB_DIR/out")"
	wait $pids
	NOTE="$(($(seen) - before)) RoCE packets crossed the line"
	[ -z "$WHY" ] && lab_wait 9 two_run 3 || why "${WHY:-the reload: $(cat "$LAB_DIR/out")}" || return
	[ "$(seen)" = "$before" ] || why "$NOTE" || return
	! lab_in ea nft list tables | grep -qE 'longreach_(osaka|tokyo)' || why "tables of the former names are left" || return
	[ "$(lab_ip ea rule show | grep -c '^90:.*from 10.101.*blackhole')" = 4 ] || why "rules: $(lab_ip ea rule show)" || return
	stays_closed
}

# With a barrier all IP between the hosts goes through the daemon: when it has died and owes nothing, IP flows again.
after_death() {
	local start ms
	LAB_EXTRA=Link.Barrier=pair
	lab_relink 30 || return
	lab_rcperf --iters 5 --size 4096 || why "no traffic" || return
	lab_wait 3 nothing_is_held || why "the buffers do not drain" || return
	lab_edges_kill
	! ping_passes || why "IP flows before anybody has looked" || return
	start=$(date +%s%3N)
	lab_close a && lab_close b || why "--close: $(tail -1 "$LAB_DIR/close.log")" || return
	lab_wait 3 ping_passes || why "IP does not flow" || return
	ms=$(($(date +%s%3N) - start))
	stays_closed || return
	NOTE="IP flows $ms ms after; $NOTE"
}

nothing_is_held() {
	[ "$(lab_status a '[.links[0].buffer[].used_bytes] | add')" = 0 ] && [ "$(lab_status b '[.links[0].buffer[].used_bytes] | add')" = 0 ]
}

lab_edges_kill() {
	lab_edge_stop a KILL
	lab_edge_stop b KILL
}

# Other IP must not overtake owed packets.
after_death_owing() {
	lab_relink 30 || return
	rm -f "$LAB_DIR/close.log"
	lab_load || why "no traffic" || return
	lab_line_ctl cut
	sleep 0.3
	lab_edges_kill
	lab_line_ctl uncut
	lab_wait 5 close_sees_what_is_owed || why "--close does not see what is owed" || return
	lab_load_end INT
	! ping_passes || why "IP overtakes what is owed"
}

# While a killed process is still dying its buffer is locked: the buffer then counts as owing packets.
close_sees_what_is_owed() {
	lab_close a
	lab_close b
	grep -q 'packets that hosts believe delivered' "$LAB_DIR/close.log"
}

# Debian's own nftables.conf begins with it.
flushed() {
	local before start ms
	lab_relink 30 || return
	before=$(lab_status a '.links[0].counters.rules_restored')
	start=$(date +%s%3N)
	lab_in ea nft flush ruleset
	lab_wait 2 rules_stand || why "the rules do not come back" || return
	ms=$(($(date +%s%3N) - start))
	[ "$(lab_status a '.links[0].counters.rules_restored')" -gt "$before" ] || why "not counted" || return
	grep -q 'rules_changed' "$LAB_DIR/a/log" || why "the log says nothing" || return
	lab_wait 2 lab_client a status --check || why "--check fails afterwards" || return
	NOTE="back after $ms ms"
}

# The same while the daemon restores rules: it must not take the incomplete rules for the wanted ones.
flushed_again() {
	local round
	for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
		lab_in ea bash -c "nft flush ruleset; sleep 0.0$((round * 3 + 10)); nft flush ruleset; sleep 0.0$((95 - round * 5)); nft flush ruleset"
		lab_wait 2 rules_stand || why "round $round: no rules, state $(lab_status a '.links[0].state')" || return
	done
}

# The table without a link, which --close made for a file that cannot be parsed.
all_flushed() {
	local path
	path=$(lab_conf_path a)
	cp "$path" "$path.saved"
	head -c 60 "$path.saved" >"$path"
	! lab_close a || why "--close is content with half a file" || return
	all_is_closed || why "all RoCE is not closed" || return
	sleep 1 # the daemon has heard of it
	all_comes_back || return
	grep -q 'table inet longreach.*put them back' "$LAB_DIR/a/log" || why "the log says nothing" || return
	mv "$path.saved" "$path"
	lab_close a || why "--close: $(tail -1 "$LAB_DIR/close.log")" || return
	sleep 0.5
	! all_is_closed || why "all RoCE is closed although the file is whole"
}

# What closes all RoCE: the nft table, and the rules in front of the routing tables.
all_comes_back() {
	all_is_closed && rule_at_89 || why "all RoCE is not closed" || return
	lab_in ea nft flush ruleset
	lab_wait 2 all_is_closed || why "the table inet longreach does not come back" || return
	{ lab_ip ea rule del pref 89 && lab_ip ea -6 rule del pref 89; } || why "no rules at 89" || return
	lab_wait 2 rule_at_89 || why "the rules at 89 do not come back"
}

# The daemon's answer names what is wrong.
says_why_all_is_closed() { # what the file's error has
	! lab_client a status --check >"$LAB_DIR/check.out" 2>&1 || why "--check is content" || return
	grep -q "link.conf.*$1" "$LAB_DIR/check.out" && grep -q 'no RoCE' "$LAB_DIR/check.out" ||
		why "--check says: $(cat "$LAB_DIR/check.out")" || return
	lab_client a status >"$LAB_DIR/out" 2>&1
	grep -q "link.conf.*$1" "$LAB_DIR/out" || why "status says: $(head -3 "$LAB_DIR/out")"
}

cut_file_of_a_stopped_link() {
	local path
	path=$(lab_conf_path a)
	lab_client a stop link >"$LAB_DIR/out" 2>&1 || why "$(cat "$LAB_DIR/out")" || return
	cp "$path" "$path.saved"
	echo 'Nonsense=1' >>"$path"
	! lab_client a reload >"$LAB_DIR/out" 2>&1 || why "the reload takes the file" || return
	grep -q 'no RoCE' "$LAB_DIR/out" || why "the reload does not say what is closed: $(cat "$LAB_DIR/out")" || return
	all_comes_back && says_why_all_is_closed Nonsense || return
	mv "$path.saved" "$path"
	lab_client a reload >"$LAB_DIR/out" 2>&1 && lab_client a start link >"$LAB_DIR/out" 2>&1 ||
		why "$(cat "$LAB_DIR/out")" || return
	lab_wait 3 lab_link_is_up || why "state $(lab_status a '.links[0].state')" || return
	! all_is_closed && ! rule_at_89 || why "all RoCE is closed although the file is whole" || return
	lab_client a status --check >"$LAB_DIR/check.out" 2>&1 || why "--check says: $(cat "$LAB_DIR/check.out")"
}

# The daemon runs no link, and guards the rules until a reload finds a file that it understands.
start_on_a_file_not_understood() {
	lab_edge_stop a
	LAB_EXTRA_A=Link.Nonsense=1
	lab_edge_start a
	LAB_EXTRA_A=
	lab_wait 3 lab_client a status || why "no daemon answers: $(tail -1 "$LAB_DIR/a/log")" || return
	all_comes_back && says_why_all_is_closed Nonsense && stays_closed || return
	lab_conf a >"$(lab_conf_path a)"
	lab_client a reload >"$LAB_DIR/out" 2>&1 || why "$(cat "$LAB_DIR/out")" || return
	lab_wait 5 lab_link_is_up || why "state $(lab_status a '.links[0].state')" || return
	! all_is_closed && ! rule_at_89 || why "all RoCE is closed although the file is whole"
}

# A reload checks the rules, too, and does not treat a running link as one that owes packets.
reloaded() {
	local from
	from=$(wc -l <"$LAB_DIR/a/log")
	lab_client a reload >"$LAB_DIR/out" 2>&1 || why "$(cat "$LAB_DIR/out")" || return
	! tail -n "+$((from + 1))" "$LAB_DIR/a/log" | grep -q 'stays closed' || why "$(tail -1 "$LAB_DIR/a/log")" || return
	rules_stand || why "no rules"
}

# Only some of the rules: the remaining ones look like a complete set.
one_rule_gone() {
	local handle
	handle=$(lab_in ea nft -a list chain inet longreach_link forward | sed -n 's/.*drop # handle //p' | head -1)
	lab_in ea nft delete rule inet longreach_link forward handle "$handle" || why "no rule to delete" || return
	lab_wait 2 rules_number || why "it does not come back"
}

rules_number() {
	[ "$(lab_in ea nft list table inet longreach_link | grep -c drop)" = "$RULES" ]
}

make_bad_nft() {
	mkdir -p "$LAB_DIR/bin"
	printf '#!/bin/sh\necho "nft: no" >&2\nexit 1\n' >"$LAB_DIR/bin/nft"
	chmod +x "$LAB_DIR/bin/nft"
}

# While the rules cannot be restored nothing is acknowledged early; the edge reports this.
cannot_be_put_back() {
	make_bad_nft
	lab_edge_stop a
	PATH="$LAB_DIR/nft:$PATH" lab_edge_start a # where a nft that fails will be
	lab_link_up || return
	mv "$LAB_DIR/bin" "$LAB_DIR/nft"
	lab_in ea nft flush ruleset
	lab_wait 2 edge_is_open || why "state $(lab_status a '.links[0].state')" || return
	! lab_client a status --check >"$LAB_DIR/check.out" 2>&1 || why "--check is content" || return
	grep -q 'nft: no' "$LAB_DIR/check.out" || why "--check does not say why: $(cat "$LAB_DIR/check.out")" || return
	lab_rcperf --depth 1 --iters 20 --size 4096 || why "nothing is carried" || return
	NOTE="completions at $(lab_result .here.latency_us.p50) us, round trip 300 us"
	holds "$(lab_result .here.latency_us.p50) > 300" || why "acknowledged early: $NOTE" || return
	rm -r "$LAB_DIR/nft"
	lab_wait 3 lab_link_is_up || why "state $(lab_status a '.links[0].state') with a nft that works"
}

edge_is_open() {
	[ "$(lab_status a '.links[0].state')" = open ]
}

edge_is_stopped() {
	[ "$(lab_status a '.links[0].state')" = stopped ]
}

# The daemon of cannot_be_put_back(). No event follows when nft works again.
stopped_cannot_be_put_back() {
	local path
	path=$(lab_conf_path a)
	lab_client a stop link >"$LAB_DIR/out" 2>&1 || why "$(cat "$LAB_DIR/out")" || return
	cp "$path" "$path.saved"
	echo 'Nonsense=1' >>"$path"
	make_bad_nft
	mv "$LAB_DIR/bin" "$LAB_DIR/nft"
	lab_in ea nft flush ruleset
	lab_wait 2 edge_is_open || why "state $(lab_status a '.links[0].state')" || return
	lab_status a '.links[0].error' | grep -q 'nft: no.*stopped by\|stopped by.*nft: no' ||
		why "error: $(lab_status a '.links[0].error')" || return
	! lab_client a reload >"$LAB_DIR/out" 2>&1 || why "the reload takes the file" || return
	sleep 1
	! rules_stand 2>/dev/null && ! all_is_closed || why "nft works" || return
	rm -r "$LAB_DIR/nft"
	lab_wait 3 edge_is_stopped || why "state $(lab_status a '.links[0].state') with a nft that works" || return
	rules_stand || why "no rules of the stopped link" || return
	lab_wait 4 all_is_closed || why "the table inet longreach does not come back" || return
	stays_closed || return
	mv "$path.saved" "$path"
	lab_client a reload >"$LAB_DIR/out" 2>&1 && lab_client a start link >"$LAB_DIR/out" 2>&1 ||
		why "$(cat "$LAB_DIR/out")" || return
	lab_wait 3 lab_link_is_up || why "state $(lab_status a '.links[0].state')"
}

# A daemon that runs no link closes all RoCE as soon as nft works again.
all_cannot_be_put_back() {
	make_bad_nft
	lab_edge_stop a
	LAB_EXTRA_A=Link.Nonsense=1
	PATH="$LAB_DIR/nft:$PATH" lab_edge_start a
	LAB_EXTRA_A=
	lab_wait 3 all_is_closed || why "all RoCE is not closed" || return
	sleep 1 # the daemon has heard of it
	mv "$LAB_DIR/bin" "$LAB_DIR/nft"
	lab_in ea nft flush ruleset
	sleep 1
	! all_is_closed || why "nft works" || return
	rm -r "$LAB_DIR/nft"
	lab_wait 4 all_is_closed || why "the table inet longreach does not come back" || return
	lab_conf a >"$(lab_conf_path a)"
	lab_client a reload >"$LAB_DIR/out" 2>&1 || why "$(cat "$LAB_DIR/out")" || return
	lab_wait 3 lab_link_is_up || why "state $(lab_status a '.links[0].state')"
}

lab_up
lab_line --rate $LAB_LINE_RATE
lab_server $B_HOST
lab_watch_line
LAB_EXTRA=Link.Barrier=off
lab_edges
check "the link comes up" lab_link_up
check "a key that does not match" cannot_start "key" wrong_key right_key
check "a port that somebody else has" cannot_start "4790|in use" take_port give_port
check "a certificate that has expired" cannot_start "expired" expire renew
check "a LAN port that is not there" cannot_start "lan9" no_port ports
check "a buffer that there is no memory for" cannot_start "no room|not possible|memory" too_much enough
check "pieces of a datagram do not pass a running link" pieces_stay
check "SIGTERM" stopped TERM
check "nor do pieces of a datagram pass" pieces_stay
check "where the kernel joins pieces, those of other ports do" pieces_known
check "pieces do not pass without nft, and whole datagrams do" pieces_stay_by_ip_rule
check "pieces pass where there is no link" pieces_pass_without_a_link
check "before any daemon: --close" before_any_daemon
check "half a file closes all RoCE" half_a_file
check "so does a file whose target is not there" file_without_its_target
check "half a file, and a flushed ruleset" half_a_file_and_a_flush
check "what closes all RoCE is no rule of a link" all_is_not_one_of_the_links
check "a directory that cannot be read opens nothing" no_directory
check "nor does a full /tmp" no_space
check "a file that is gone opens the way" file_gone
check "behind a daemon that died: IP flows, RoCE does not" after_death
check "unless something is owed" after_death_owing
LAB_EXTRA=Link.Barrier=off
check "flushed rules are put back" flushed
check "also when they are flushed again meanwhile" flushed_again
check "so is the table of a file that cannot be understood" all_flushed
check "a stopped link's file that a reload does not understand" cut_file_of_a_stopped_link
check "a start on a file that is not understood" start_on_a_file_not_understood
check "a reload of what runs" reloaded
RULES=$(lab_in ea nft list table inet longreach_link | grep -c drop)
check "so is a single one" one_rule_gone
check "rules that cannot be put back end early ACKs" cannot_be_put_back
check "those of a stopped link, and of a bad file, come back with nft" stopped_cannot_be_put_back
check "so does what closes all RoCE, without a link" all_cannot_be_put_back
check "renamed files, and a reload under load" renamed_under_load
check_end
