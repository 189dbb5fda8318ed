#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bench_copy.sh - longreach copy beside rsync, tar and scp over TCP, and beside memory to memory by the same daemons. Root.
#
#   bench/bench_copy.sh [--km "0 300 1000"] [--loss "0 0.1%"] [--small FILES] [--large MIB] [--tcp cubic|bbr] [--out DIR]
#
# Default: 20,000 files of 1 to 8 KiB, and 4 files of 256 MiB together; with QUICK=1 4,000 files, 64 MiB, 0 and 300 km, no loss.
# Trees and copies are in memory (/dev/shm). rsync talks to a daemon on the other edge's machine (rsync -aH, no ssh), tar uses
# socat, scp an sshd with keys of its own (scp -rp, aes128-gcm): all run between the edges' machines, on the same line, by default over CUBIC.
# scp waits for several answers for each small file, so it copies only the first 500. Without an sshd (make deps-bench) scp has
# no figures. DIR (default bench-out) gets copy.csv. Every copy is compared with its source. The verdicts: large files at 0.9 of
# memory to memory and no slower than rsync; small files per second no fewer than rsync's, tar's and scp's.
. "$(dirname "$0")/../tests/netns/lab.sh"
. "$(dirname "$0")/bench.sh"

KMS="0 300 1000" LOSSES="0 0.1%" SMALL=20000 LARGE_MIB=256 TCP=cubic OUT=bench-out
FEW=500 # small files in a folder; scp copies one folder
: "${SSHD:=$(PATH=$PATH:/usr/sbin command -v sshd)}"
NO_SCP= # the reason why scp is left out

options() {
	[ -z "${QUICK:-}" ] || KMS="0 300" LOSSES="0" SMALL=4000 LARGE_MIB=64
	while [ $# -gt 0 ]; do
		case $1 in
		--km) KMS=$2 ;;
		--loss) LOSSES=$2 ;;
		--small) SMALL=$2 ;;
		--large) LARGE_MIB=$2 ;;
		--tcp) TCP=$2 ;;
		--out) OUT=$2 ;;
		*)
			sed -n '5s/^# *//p' "$0" >&2
			exit 2
			;;
		esac
		shift 2 || exit 2
	done
}

make_trees() {
	local i
	FILES=$LAB_SHM/files
	mkdir -p "$FILES/src/large" "$FILES/src/small" "$FILES/dst"
	for i in 1 2 3 4; do
		head -c $((LARGE_MIB << 18)) /dev/urandom >"$FILES/src/large/$i"
	done
	python3 - "$FILES/src/small" "$SMALL" $FEW <<-'END'
		import os, random, sys
		random.seed(1)
		data = os.urandom(1 << 16)
		for i in range(int(sys.argv[2])):
		    d = os.path.join(sys.argv[1], str(i // int(sys.argv[3])))
		    os.makedirs(d, exist_ok=True)
		    n = random.randint(1 << 10, 8 << 10)
		    at = random.randint(0, len(data) - n)
		    with open(os.path.join(d, str(i)), "wb") as f:
		        f.write(data[at:at + n])
	END
	chmod -R a+rX "$LAB_SHM"
}

# The machine's default may be another one. The sysctl of a namespace refuses what the machine does not allow to users.
set_tcp() {
	local i
	for i in a:1 b:2; do
		lab_ip "e${i%:*}" route replace 192.0.2.0/24 dev wan0 proto kernel scope link src "192.0.2.${i#*:}" congctl "$TCP" ||
			lab_die "this kernel has no TCP $TCP"
	done
}

start_servers() {
	chmod 755 "$LAB_DIR"
	lab_edges
	lab_link_up || lab_die "the link does not come up"
	ip netns exec "$LAB_ID-eb" "$LAB_BIN/longreachd" --exports --config "$(lab_conf_path b)" >>"$LAB_DIR/exports.log" 2>&1 &
	LONGREACH_RELAY=$LAB_DIR/b.relay "$LAB_BIN/longreach" export link:memory --shm "${LARGE_MIB}MiB" --access w >"$LAB_DIR/export.log" 2>&1 &
	MEMORY=$!
	cat >"$LAB_DIR/rsyncd.conf" <<-END
		[dst]
		path = $FILES/dst
		read only = no
		uid = root
		gid = root
	END
	ip netns exec "$LAB_ID-eb" rsync --daemon --no-detach --port 8730 --config "$LAB_DIR/rsyncd.conf" >"$LAB_DIR/rsyncd.log" 2>&1 &
	lab_wait 5 lab_listens eb 8730 || lab_die "rsync does not listen"
	start_sshd
	lab_wait 8 longreach copy -n "$FILES/src/large/1" link:dst || lab_die "no export: $(cat "$LAB_DIR/exports.log")"
}

# An sshd of this benchmark: its keys and its configuration are in the lab's folder, and /run is private to its namespace.
start_sshd() {
	local dir=$LAB_DIR/ssh
	[ -n "$SSHD" ] || { NO_SCP="sshd is not installed: make deps-bench" && return; }
	mkdir -m 700 "$dir"
	ssh-keygen -q -t ed25519 -N '' -f "$dir/host" && ssh-keygen -q -t ed25519 -N '' -f "$dir/key"
	cat >"$dir/sshd_config" <<-END
		ListenAddress 192.0.2.2:8722
		HostKey $dir/host
		AuthorizedKeysFile $dir/key.pub
		AuthenticationMethods publickey
		PermitRootLogin prohibit-password
		AllowUsers root
		UsePAM no
		UseDNS no
		StrictModes no
		PidFile none
		AllowTcpForwarding no
		Subsystem sftp internal-sftp
	END
	echo "[192.0.2.2]:8722 $(cut -d' ' -f1,2 "$dir/host.pub")" >"$dir/known_hosts"
	lab_in eb sh -c 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"' - "$SSHD" -D -e -f "$dir/sshd_config" \
		>"$LAB_DIR/sshd.log" 2>&1 &
	lab_wait 5 lab_listens eb 8722 && lab_wait 5 ssh_works || NO_SCP="sshd takes no login: $(tail -1 "$LAB_DIR/sshd.log")"
}

SSH_OPTIONS=(-F none -o BatchMode=yes -o IdentitiesOnly=yes -o ControlPath=none -o Compression=no -c aes128-gcm@openssh.com)

ssh_works() {
	lab_in ea ssh "${SSH_OPTIONS[@]}" -i "$LAB_DIR/ssh/key" -o UserKnownHostsFile="$LAB_DIR/ssh/known_hosts" -p 8722 root@192.0.2.2 true
}

longreach() {
	LONGREACH_RELAY="$LAB_DIR/a.relay" "$LAB_BIN/longreach" "$@"
}

# --- the copies: each function fills an empty $FILES/dst from a tree ---

by_longreach() { # tree
	longreach copy "$FILES/src/$1" link:dst >"$LAB_DIR/copy.out" 2>&1
}

by_rsync() { # tree
	lab_in ea rsync -aH "$FILES/src/$1" rsync://192.0.2.2:8730/dst/ >"$LAB_DIR/rsync.out" 2>&1
}

by_tar() { # tree
	lab_in eb socat -u TCP-LISTEN:9400,reuseaddr SYSTEM:"tar -x -C $FILES/dst" &
	local server=$!
	lab_wait 3 lab_listens eb 9400
	tar -c -C "$FILES/src" "$1" | lab_in ea socat -u - TCP:192.0.2.2:9400
	wait $server
}

by_scp() { # tree
	lab_in ea scp -rpq "${SSH_OPTIONS[@]}" -i "$LAB_DIR/ssh/key" -o UserKnownHostsFile="$LAB_DIR/ssh/known_hosts" -P 8722 \
		"$FILES/src/$1" "root@192.0.2.2:$FILES/dst/" >"$LAB_DIR/scp.out" 2>&1
}

by_memory() {
	longreach put "$FILES/memory" link:memory --promise 'done' >"$LAB_DIR/put.out" 2>&1
}

# Prints the seconds of a copy, or nothing if the copy failed or differs.
measure() { # what tree
	local begin took
	rm -rf "${FILES:?}/dst"/* # not the directory, which the servers have open
	begin=$(date +%s%N)
	"by_$1" "$2" || return
	took=$(awk "BEGIN { printf \"%.3f\", ($(date +%s%N) - $begin) / 1e9 }")
	if [ "$1" != memory ] && ! diff -r "$FILES/src/$2" "$FILES/dst/${2##*/}" >"$LAB_DIR/diff" 2>&1; then
		echo "$1: the copy of $2 DIFFERS: $(head -1 "$LAB_DIR/diff")" >&2
		return
	fi
	echo "$took"
}

row() { # km loss
	local what tree small files large_bits=$((LARGE_MIB << 23))
	declare -A took rate
	lab_line_set "$1" "loss=$2"
	for what in memory longreach rsync tar scp; do
		small=small files=$SMALL
		[ $what != scp ] || small=small/0 files=$((SMALL < FEW ? SMALL : FEW))
		[ $what != scp ] || [ -z "$NO_SCP" ] || continue
		for tree in large $small; do
			[ "$what $tree" != "memory small" ] || continue
			took[$what $tree]=$(measure $what $tree)
			echo "$1,$2,$what,$tree,${took[$what $tree]}" >>"$OUT/copy.csv"
		done
		rate[$what large]=$(per_second "$large_bits / 1e6" "${took[$what large]}")
		rate[$what small]=$(per_second "$files" "${took[$what $small]:-}")
		printf '%6s %6s  %-10s %8s Mbit/s %10s files/s\n' "$1" "$2" $what "${rate[$what large]:--}" "${rate[$what small]:--}"
	done
	ratio "$1 km, $2 loss: large files / memory to memory" "${rate[memory large]}" "${rate[longreach large]}" 0.9
	for what in rsync tar scp; do
		ratio "$1 km, $2 loss: large files / $what" "${rate[$what large]:-}" "${rate[longreach large]}" 1
		ratio "$1 km, $2 loss: small files / $what" "${rate[$what small]:-}" "${rate[longreach small]}" 1
	done
}

per_second() { # how-many seconds
	[ -z "$2" ] || awk "BEGIN { printf \"%.0f\", $1 / $2 }"
}

ratio() { # what rate-of-the-other rate-of-ours limit
	if [[ $1 = */\ scp ]] && [ -n "$NO_SCP" ]; then
		no_verdict "$1" "$NO_SCP"
	elif [ -z "$2" ] || [ -z "$3" ]; then
		no_verdict "$1" "a copy failed"
	else
		verdict "$1" "$(awk "BEGIN { printf \"%.2f\", $3 / $2 }")" '>=' "$4"
	fi
}

options "$@"
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
say_if_busy
lab_up
lab_line --rate $LAB_LINE_RATE --km 0
LAB_MODE=near
LAB_EXTRA="Relay.Enable=yes"
LAB_EXTRA_A="Relay.Socket=$LAB_DIR/a.relay"
set_tcp
make_trees
LAB_EXTRA_B="Relay.Socket=$LAB_DIR/b.relay Export_dst.Path=$FILES/dst Export_dst.Mode=write Export_dst.User=root"
head -c $((LARGE_MIB << 20)) /dev/urandom >"$FILES/memory"
start_servers
echo "km,loss,by,tree,seconds" >"$OUT/copy.csv"
echo "    km   loss  by            large          small      (a line of $LAB_LINE_RATE, Rate=$LAB_RATE, TCP $TCP)"
for km in $KMS; do
	for loss in $LOSSES; do
		row "$km" "$loss"
	done
done
kill "$MEMORY"
