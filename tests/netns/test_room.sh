#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A link that cannot start, since there is no room for its buffer or its key is a wrong one: it starts as soon as that is
# put right, at whatever moment that is, and until then the hosts' IP goes on as without a daemon.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

no_room() {
	mkdir -p "$LAB_SHM/a"
	mount -t tmpfs -o size=1M none "$LAB_SHM/a"
}
# The daemon has mounts of its own; the file system is the same.
room() { mount -o remount,size=1G "$LAB_SHM/a"; }

says() { grep -q "$1" "$LAB_DIR/a/log"; }

# How often nft was called.
tried() { grep -c . "$LAB_DIR/nft.calls"; }

# An nft that takes its time, and says when it is called: the attempt that has found no room is still at the rules then.
slow_nft() {
	mkdir -p "$LAB_DIR/slow"
	: >"$LAB_DIR/nft.calls"
	cat >"$LAB_DIR/slow/nft" <<-END
		#!/bin/sh
		echo "\$*" >>"$LAB_DIR/nft.calls"
		sleep 0.3
		exec $(command -v nft) "\$@"
	END
	chmod +x "$LAB_DIR/slow/nft"
}

# Until the file of an attempt is deleted, less than a millisecond after it was made: inotify(7), IN_DELETE.
sees_an_attempt() {
	timeout 15 perl -e '
		my ($init, $add) = `uname -m` =~ /x86_64/ ? (294, 254) : (26, 27);
		my $fd = syscall($init, 0);
		syscall($add, $fd, $ARGV[0], 0x200) >= 0 or die;
		open(my $events, "<&=", $fd) or die;
		sysread($events, my $event, 4096);
		exit($event !~ /arena\.new/);' "$LAB_SHM/a"
}

# Room is made while an attempt goes on that has not found it: the next one comes 0.5 s behind that one, not 2 s.
room_in_time() {
	local calls start ms
	slow_nft
	no_room
	PATH="$LAB_DIR/slow:$PATH" lab_edge_start a
	lab_wait 20 says 'does not start.*no room' || why "it does not say that there is no room" || return
	sees_an_attempt || why "no second attempt" || return
	room
	calls=$(tried) start=$(date +%s%3N)
	lab_wait 20 says 'link link: started' || why "it does not start" || return
	ms=$(($(date +%s%3N) - start)) calls=$(($(tried) - calls))
	NOTE="started $ms ms after there was room, with $calls calls of a slow nft"
	[ $ms -lt $((1500 + 330 * calls)) ] || why "$NOTE"
}

ip_flows_while() { # reason
	local lost
	lab_edge_start a
	lab_wait 10 says "does not start.*$1" || why "it does not say \"$1\"" || return
	lab_in ha busybox ping -q -c 100 -i 0.05 -W 1 $B_HOST >"$LAB_DIR/ping" 2>&1
	lost=$(sed -n 's/.* \([0-9]*\)% packet loss.*/\1/p' "$LAB_DIR/ping")
	NOTE="$lost % of 100 pings lost over 5 s"
	! says 'link link: started' || why "it has started" || return
	[ "$lost" = 0 ] || why "$NOTE"
}

ip_without_room() {
	no_room
	ip_flows_while 'no room'
}

ip_without_key() {
	cp "$LAB_DIR/keys/b/link.key" "$LAB_DIR/keys/a/link.key"
	ip_flows_while 'key'
}

anew() {
	lab_edge_stop a KILL
	umount "$LAB_SHM/a"
	rm -f "$LAB_SHM"/a/* "$LAB_DIR/a/log"
}

LAB_EXTRA=Link.Barrier=pair
lab_up
lab_line --rate $LAB_LINE_RATE --km 0
check "a link that finds no room: IP of the hosts flows" ip_without_room
anew
check "room that is made during an attempt is seen" room_in_time
anew
check "a link whose key is a wrong one: IP of the hosts flows" ip_without_key
check_end
