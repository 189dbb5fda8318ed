# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# nvme.sh - a disk of guest b that guest a uses over NVMe/RDMA; sourced by run.sh.
#
# The disk is a null_blk device that keeps its data (memory_backed). Guest a must read back the data that it wrote, and guest
# b's own view of the disk must be the same. nvme connects through rdma_cm, registers memory with work
# requests, SENDs with and without invalidation, and its target READs what the host writes: all in flight at once here.

nvme_disk_mib=16
nvme_nqn=nqn.2014-08.org.example:vm

# In guest b. The device is made once, the target again for each check.
nvme_target_script='
	cfg=/sys/kernel/config
	grep -q configfs /proc/mounts || { modprobe configfs; mount -t configfs none $cfg; }
	modprobe nvmet-rdma && modprobe null_blk nr_devices=0 || exit 1
	if ! [ -d $cfg/nullb/nullb0 ]; then
		mkdir $cfg/nullb/nullb0 && cd $cfg/nullb/nullb0 || exit 1
		echo 1 >memory_backed; echo DISK_MIB >size; echo 1 >power
	fi
	cd $cfg/nvmet && mkdir subsystems/NQN && cd subsystems/NQN || exit 1
	echo 1 >attr_allow_any_host
	mkdir namespaces/1 && printf /dev/nullb0 >namespaces/1/device_path && echo 1 >namespaces/1/enable || exit 1
	cd $cfg/nvmet && mkdir ports/PORT && cd ports/PORT || exit 1
	echo rdma >addr_trtype; echo ipv4 >addr_adrfam; echo ADDR >addr_traddr; echo PORT >addr_trsvcid
	ln -s $cfg/nvmet/subsystems/NQN subsystems/NQN'

nvme_target_end_script='
	cd /sys/kernel/config/nvmet || exit 0
	rm -f ports/PORT/subsystems/NQN; rmdir ports/PORT
	echo 0 >subsystems/NQN/namespaces/1/enable; rmdir subsystems/NQN/namespaces/1 subsystems/NQN'

# In guest a: JOBS writers and readers at once, each with a part of the disk of its own, in blocks of its own size.
nvme_host_script='
	modprobe nvme-rdma || exit 1
	for c in /sys/class/nvme/nvme*; do [ -d $c ] && echo 1 >$c/delete_controller; done
	echo transport=rdma,traddr=ADDR,trsvcid=PORT,nqn=NQN >/dev/nvme-fabrics || exit 1
	for i in $(seq 100); do [ -b /dev/nvme0n1 ] && break; usleep 100000; done
	[ -b /dev/nvme0n1 ] || { echo "no disk"; exit 1; }
	part=$((DISK_MIB / JOBS))
	job() { # NUMBER BLOCK_KIB
		n=$((part * 1024 / $2))
		for round in $(seq ROUNDS); do
			dd if=/dev/urandom of=/tmp/nvme.$1 bs=1M count=$part 2>/dev/null
			dd if=/tmp/nvme.$1 of=/dev/nvme0n1 bs=${2}K seek=$(($1 * n)) oflag=direct conv=notrunc 2>/tmp/dd.$1 ||
				{ cat /tmp/dd.$1; return 1; }
			dd if=/dev/nvme0n1 bs=${2}K skip=$(($1 * n)) count=$n iflag=direct 2>/dev/null | cmp - /tmp/nvme.$1 ||
				{ echo "WRONG: job $1 round $round, blocks of $2 KiB"; return 1; }
		done
	}
	start=$(cut -d" " -f1 /proc/uptime) rc=0 pids=
	i=0
	for kib in BLOCKS; do
		job $i $kib &
		pids="$pids $!"; i=$((i + 1))
	done
	for p in $pids; do wait $p || rc=1; done
	end=$(cut -d" " -f1 /proc/uptime)
	for i in $(seq 0 $((JOBS - 1))); do cat /tmp/nvme.$i; done | md5sum | sed "s/ .*//; s/^/MD5 /"
	echo "$start $end" | awk "{ printf \"%.1f MiB/s\n\", 2 * ROUNDS * DISK_MIB / (\$2 - \$1) }"
	echo 1 >/sys/class/nvme/nvme0/delete_controller
	rm -f /tmp/nvme.*
	dmesg | grep -i nvme | tail -n 4
	exit $rc'

nvme_fill() { # SCRIPT JOBS ROUNDS BLOCKS
	local s=$1
	s=${s//ADDR/$lan_addr_b} s=${s//PORT/$port} s=${s//NQN/$nvme_nqn} s=${s//DISK_MIB/$nvme_disk_mib}
	s=${s//JOBS/$2} s=${s//ROUNDS/$3}
	echo "${s//BLOCKS/$4}"
}

# check_nvme NAME ROUNDS BLOCK_KIB...: a job for each size of block.
check_nvme() {
	local name=$1 rounds=$2 here there rc
	wanted "$name" || return
	shift 2
	port=$((port + 1))
	echo "nvmet on port $port" >"$work/$mode-$name.b.cmd"
	echo "nvme: $rounds rounds, blocks of $* KiB" >"$work/$mode-$name.a.cmd"
	on_b "$(nvme_fill "$nvme_target_script" $# "$rounds" "$*")" >"$work/$mode-$name.b" 2>&1 || note "no NVMe target"
	on_a -t 200 "$(nvme_fill "$nvme_host_script" $# "$rounds" "$*")" >"$work/$mode-$name.a" 2>&1
	rc=$?
	on_b "dmesg | tail -n 5; $(nvme_fill "$nvme_target_end_script" $# "$rounds" "$*")" >>"$work/$mode-$name.b" 2>&1
	here=$(sed -n 's/^MD5 //p' "$work/$mode-$name.a")
	there=$(on_b "dd if=/dev/nullb0 bs=1M iflag=direct 2>/dev/null | md5sum" | sed 's/ .*//')
	[ "$here" = "$there" ] || { rc=1 && echo "the disk itself: $there" >>"$work/$mode-$name.a"; }
	finish "$name" $rc "$(grep 'MiB/s' "$work/$mode-$name.a")"
}

# Not in mode direct: with a host's own retries, after seconds, NVMe does not work over a line with 1 % loss.
suite_nvme() {
	local m
	impair 300 1% 1%,300us 0.5%
	for m in ${modes:-near host}; do
		use "$m"
		check_nvme nvme-4k-to-512k 2 4 16 64 512
	done
}
