#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# longreachd --check-config: settings that do not fit the machine, and all errors in one run.
. "$(dirname "$0")/lab.sh"
. "$(dirname "$0")/check.sh"

# The link file of edge A with something wrong in it, in $LAB_DIR/check/link.conf.
write_file() { # sed-expression
	mkdir -p "$LAB_DIR/check" "$LAB_SHM/a"
	lab_conf a | sed "$1" >"$LAB_DIR/check/link.conf"
}

check_file() { # options...: status and output
	lab_in ea "$LAB_BIN/longreachd" --check-config "$@" "$LAB_DIR/check/link.conf" >"$LAB_DIR/out" 2>&1
}

line_of() { # text at the beginning of a line: its number in the file
	grep -n -m1 "^$1" "$LAB_DIR/check/link.conf" | cut -d: -f1
}

# The check refuses the file with its name, the line and the text, and for this error only.
refused() { # sed-expression line-begins-with sentence [offline]
	write_file "$1"
	! check_file ${4:+--offline} || why "it is accepted" || return
	NOTE=$(sed "s|$LAB_DIR/check/||" "$LAB_DIR/out" | head -1 | cut -c1-120)
	[[ $(head -1 "$LAB_DIR/out") = "$LAB_DIR/check/link.conf:$(line_of "$2"): "*"$3"* ]] || why "it says: $NOTE" || return
	[ "$(wc -l <"$LAB_DIR/out")" = "${5:-1}" ] || why "$(wc -l <"$LAB_DIR/out") lines: $(tail -1 "$LAB_DIR/out")"
}

# With --offline the same file has no error.
refused_here_only() { # sed-expression line-begins-with sentence
	refused "$@" || return
	check_file --offline || why "--offline: $(head -1 "$LAB_DIR/out")"
}

accepted() {
	write_file ''
	check_file || why "$(head -1 "$LAB_DIR/out")" || return
	NOTE=$(sed "s|$LAB_DIR/check/||" "$LAB_DIR/out")
	[ "$(wc -l <"$LAB_DIR/out")" = 1 ] || why "it says: $(cat "$LAB_DIR/out")"
}

# The files of `longreach keygen` as root has copied them: root reads them, and the service's user, here `nobody`, does not.
as_the_service_reads_them() {
	local keys=$LAB_DIR/keys/a
	write_file ''
	chmod 711 "$LAB_DIR" "$LAB_DIR/keys" "$keys"
	check_file --user root || why "root's own daemon: $(head -1 "$LAB_DIR/out")" || return
	! check_file --user nobody || why "it accepts files that the service cannot read" || return
	grep -q "link.conf:$(line_of Key=): Key=.*: cannot be read by user nobody, whom the service runs as: .chown nobody. it" "$LAB_DIR/out" ||
		why "it does not tell Key=: $(cat "$LAB_DIR/out")" || return
	grep -q "link.conf:$(line_of CA=): CA=.*: cannot be read by user nobody" "$LAB_DIR/out" ||
		why "it does not tell CA=: $(cat "$LAB_DIR/out")" || return
	NOTE=$(sed "s|$LAB_DIR/check/||" "$LAB_DIR/out" | tail -1 | cut -c1-120)
	chown nobody "$keys"/link.*
	check_file --user nobody || why "with chown: $(head -1 "$LAB_DIR/out")" || return
	chown root:nogroup "$keys"/link.* && chmod 640 "$keys/link.key" "$keys/link.ca.crt"
	check_file --user nobody || why "by its group: $(head -1 "$LAB_DIR/out")"
	chown root:root "$keys"/link.* && chmod 600 "$keys/link.key" "$keys/link.ca.crt"
	! check_file --user nobody-at-all || why "it accepts a user that does not exist"
	[ -z "$WHY" ]
}

# The check also passes while the link itself uses its buffer and its port.
accepted_while_running() {
	lab_edges
	lab_link_up || return
	lab_in ea "$LAB_BIN/longreachd" --check-config "$(lab_conf_path a)" >"$LAB_DIR/out" 2>&1 ||
		why "$(head -1 "$LAB_DIR/out")" || return
	lab_edges_stop
}

all_at_once() {
	local wanted
	write_file 's|^LanPort=.*|LanPort=lan7|; s|^AckMode=.*|AckMode=maybe|; s|^LocalAddress=.*|LocalAddress=192.0.2.77|
		s|^Directory=.*|Directory=/var/tmp/lr|; s|^PeerName=.*|PeerName=a.link|; s|^Rate=.*|Rate=fast|
		s|^RemotePrefix=10.101.2.0/24|RemotePrefix=192.0.0.0/16|'
	! check_file || why "it is accepted" || return
	for wanted in LanPort=lan7 AckMode=maybe LocalAddress=192.0.2.77 Directory=/var/tmp/lr PeerName=a.link Rate=fast \
		RemotePrefix=192.0.0.0/16; do
		grep -q "$wanted" "$LAB_DIR/out" || why "it does not tell $wanted" || return
	done
	NOTE="$(wc -l <"$LAB_DIR/out") lines"
	! check_file --offline || why "it is accepted --offline" || return
	! grep -q 'lan7\|Directory' "$LAB_DIR/out" || why "--offline looks at the machine: $(cat "$LAB_DIR/out")"
}

two_files() {
	write_file 's|^LanPort=.*|LanPort=lan7|'
	cp "$LAB_DIR/check/link.conf" "$LAB_DIR/check/other.conf"
	! lab_in ea "$LAB_BIN/longreachd" --check-config --config-dir "$LAB_DIR/check" >"$LAB_DIR/out" 2>&1 ||
		why "they are accepted" || return
	rm "$LAB_DIR/check/other.conf"
	grep -q 'link.conf:.*lan7' "$LAB_DIR/out" && grep -q 'other.conf:.*lan7' "$LAB_DIR/out" ||
		why "it does not tell both: $(cat "$LAB_DIR/out")" || return
	grep -q 'other.conf: Port=4790 is taken' "$LAB_DIR/out" || why "it does not compare them: $(cat "$LAB_DIR/out")"
}

lab_up
lab_line --rate $LAB_LINE_RATE --km 30
check "a sound file is accepted" accepted
check "keys are read as the service's user" as_the_service_reads_them
check "and while its link runs" accepted_while_running
check "a LAN port that does not exist" refused_here_only 's|^LanPort=.*|LanPort=lan7|' LanPort \
	'LanPort=lan7: this machine has no such interface: expected one of: '
check "a name in quotes" refused 's|^LanPort=.*|LanPort="lan0"|' LanPort 'a value stands without quotes' offline
check "the WAN port as LAN port" refused_here_only 's|^LanPort=.*|LanPort=lan0 wan0|' LanPort 'LanPort=wan0: is the WAN port'
check "no Ethernet" refused_here_only 's|^LanPort=.*|LanPort=lo|' LanPort 'is no Ethernet interface'
check "a local address of somebody else" refused_here_only 's|^LocalAddress=.*|LocalAddress=192.0.2.77|' LocalAddress \
	'LocalAddress=192.0.2.77: this machine does not have that address: expected one of: '
lab_ip ea addr add 198.51.100.9/32 dev lo
check "an own address as that of the other edge" refused_here_only 's|^RemoteAddress=.*|RemoteAddress=198.51.100.9|' \
	RemoteAddress "is this machine's own address"
check "a local prefix that contains the WAN's address" refused 's|^LocalPrefix=fd00.*|LocalPrefix=192.0.2.1/32|' \
	LocalPrefix=192 'LocalPrefix=192.0.2.1/32: contains LocalAddress=192.0.2.1' offline
check "a remote prefix that contains the WAN's addresses" refused 's|^RemotePrefix=fd00.*|RemotePrefix=192.0.2.0/24|' \
	RemotePrefix=192 'contains LocalAddress=192.0.2.1 of the WAN' offline 2
check "an MTU beyond that of the interface" refused_here_only 's|^MTU=.*|MTU=9216|' MTU 'is more than the MTU of wan0, 9000'
check "a directory on a disk" refused_here_only 's|^Directory=.*|Directory=/var/tmp|' Directory 'is not on hugetlbfs or tmpfs'
check "a directory that is not there" refused_here_only 's|^Directory=.*|Directory=/nowhere/at/all|' Directory \
	'cannot be opened, nor can its parent directory'
check "a file as directory" refused_here_only 's|^Directory=.*|Directory=/etc/passwd|' Directory 'is no directory'
check "more than the machine's memory" refused_here_only 's|^Size=.*|Size=4TiB|' Size 'of memory: expected less'
mkdir -p "$LAB_SHM/b" && mount -t tmpfs -o size=16M none "$LAB_SHM/b"
check "more than the mount may have" refused_here_only "s|^Directory=.*|Directory=$LAB_SHM/b|" Size \
	"can have at most 16.0 MiB"
check "its own name as PeerName" refused 's|^PeerName=.*|PeerName=a.link|' PeerName "is this edge's own name" offline
check "every error of a run" all_at_once
check "every error of several files, and between them" two_files
check_end
