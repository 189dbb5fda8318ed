#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deb_boot.sh - the package in a Debian 12 machine that systemd has booted (a guest without a disk): install, start,
# a link added and removed by its file, two links with traffic, a worker that hangs, kill, stop, purge. Has the requirements
# of tests/deb.sh and tests/vm; root.
#
#   make deb && tests/deb_boot.sh
set -u
cd "$(dirname "$0")/.." || exit 2
package=build/package
base=build/package-root/boot-base
root=build/package-root/boot
vm=build/package-root/vm

if [ "${1:-}" = guest ]; then # runs in the guest, from its only unit
	passed=0 bad=0
	verdict() { # what, command...
		local what=$1
		shift
		if "$@" >/root/log 2>&1; then
			passed=$((passed + 1))
		else
			echo "FAIL $what"
			tail -15 /root/log
			bad=$((bad + 1))
		fi
	}
	within() { # seconds command...
		local end=$((SECONDS + $1))
		shift
		until "$@"; do
			[ $SECONDS -lt $end ] || return
			sleep 0.3
		done
	}
	everything() {
		find /etc /usr /run/longreach /var/lib/systemd /dev/shm -xdev -printf '%p %u %m\n' 2>/dev/null |
			grep -vE '/etc/(passwd|group|shadow|gshadow|subuid|subgid)-? |/etc/\.pwd\.lock|ld\.so\.cache|^/etc |^/var/lib/systemd/(timers|random)' | sort
		sort /etc/passwd /etc/group
		nft list ruleset
		ip -o link show | sed 's/^[0-9]*: //; s/ .*//'
		ip rule show
	}
	link_file() {
		printf '%s\n' '[Link]' 'LanPort=lan0' 'LocalPrefix=10.101.1.0/24' 'RemotePrefix=10.101.2.0/24' '[Path]' \
			'LocalAddress=192.0.2.1' 'RemoteAddress=192.0.2.2' 'Rate=1G' '[Buffer]' 'Size=64MiB' '[Security]' \
			'Encryption=none' >/etc/longreach/wakkanai.conf
	}
	# Both ends of a line to itself: two links of the daemon, and a host in a network namespace behind each.
	hosts() {
		local site
		echo 1 >/proc/sys/net/ipv4/ip_forward # for the TCP connection of the two ends
		for site in 1 2; do
			ip netns add "host$site"
			ip link add "lan$site" type veth peer name eth0 netns "host$site"
			ip addr add "10.102.$site.1/24" dev "lan$site"
			ip addr add "198.51.100.$site/24" dev wan0
			ip link set "lan$site" up
			ip -n "host$site" addr add "10.102.$site.2/24" dev eth0
			ip -n "host$site" link set eth0 up
			ip -n "host$site" route add default via "10.102.$site.1"
		done
	}
	pair_file() { # name site other-site
		printf '%s\n' '[Link]' "LanPort=lan$2" "LocalPrefix=10.102.$2.0/24" "RemotePrefix=10.102.$3.0/24" '[Path]' \
			"LocalAddress=198.51.100.$2" "RemoteAddress=198.51.100.$3" 'Rate=1G' '[Buffer]' 'Size=64MiB' '[Security]' \
			'Encryption=none' >"/etc/longreach/$1.conf"
	}
	both_up() { [ "$(longreach status | grep -cE '^(esashi|nemuro): up,')" = 2 ]; }
	write() { # seconds: a message every 50 ms, each byte verified; the result to /root/written
		ip netns exec host1 /root/rcperf client --dev eth0 --addr 10.102.1.2 --peer 10.102.2.2 --mtu 1024 --size 4k --qps 2 \
			--depth 4 --every-ms 50 --secs "$1" --timeout-ms 16000 --json >/root/written
	}
	begin_write() {
		write "$1" &
		writer=$!
		sleep 3
	}
	wrote() { wait "$writer" && longreach status esashi | grep -q '^esashi: up,'; }
	two_links() {
		pair_file esashi 1 2
		pair_file nemuro 2 1
		reload && within 60 both_up || { longreach status && return 1; }
		ip netns exec host2 /root/rcperf server --quiet --dev eth0 --addr 10.102.2.2 &
		sleep 2
		write 5
	}
	changed_under_traffic() {
		begin_write 60
		added && sleep 2 && removed || return
		pair_file esashi 1 2 # and a reload that changes nothing
		reload && kill -0 "$writer" && wrote
	}
	# ptrace stops one thread of the process that carries packets, until that is killed.
	hang_worker() {
		local tid
		tid=$(grep -l '^lr:esashi:0' /proc/[0-9]*/task/*/comm | head -1)
		tid=${tid%/comm}
		perl -e '$p = 101; syscall($p, 16, $ARGV[0] + 0, 0, 0) == 0 or die $!; waitpid($ARGV[0], 0x40000000);
			open(F, ">", "/root/held"); close(F); waitpid($ARGV[0], 0x40000000)' "${tid##*/}" &
		within 10 test -e /root/held
	}
	worker_hung() {
		local pid
		pid=$(main_pid)
		begin_write 150
		hang_worker || { echo 'no worker could be stopped' && return 1; }
		within 120 is_back "$pid" || { journalctl -u longreachd -n 12 --no-pager && return 1; }
		journalctl -u longreachd --no-pager | grep -qi watchdog || { echo 'the watchdog is not in the log' && return 1; }
		within 60 both_up || { longreach status && return 1; }
		kill -0 "$writer" && wrote || { cat /root/written && return 1; }
	}
	is_active() { systemctl is-active --quiet longreachd && systemctl is-active --quiet longreach-closed; }
	is_user() { [ "$(ps -o user= -C longreachd 2>/dev/null | sort -u)" = longreach ] || [ "$(stat -c %U "/proc/$(main_pid)")" = longreach ]; }
	main_pid() { systemctl show -P MainPID longreachd; }
	link_is() { longreach status | grep -q "$1"; }
	reload() { within 30 longreach reload; } # an emulated processor is slow
	added() { link_file && reload && within 60 link_is wakkanai && nft list tables | grep -q longreach; }
	killed() {
		local pid
		pid=$(main_pid)
		kill -9 "$pid"
		within 60 is_back "$pid" && within 20 link_is wakkanai || { journalctl -u longreachd -n 12 --no-pager && return 1; }
	}
	is_back() { is_active && [ "$(main_pid)" != "$1" ] && longreach status >/dev/null 2>&1; }
	removed() { rm /etc/longreach/wakkanai.conf && reload && within 60 no_link; }
	no_link() { ! link_is wakkanai; }
	guarded() {
		link_file
		systemctl reload longreach-closed && within 60 closed || return
		nft flush ruleset
		ip rule flush protocol 191
		within 60 closed && ip rule show | grep -q '^90:' || { journalctl -u longreach-closed -n 12 --no-pager && return 1; }
		rm /etc/longreach/wakkanai.conf
		systemctl reload longreach-closed && within 60 eval '! closed'
	}
	closed() { nft list tables | grep -q longreach; }
	purged() {
		link_file
		reload
		dpkg -P longreach || return
		systemctl daemon-reload
		everything >/root/after
		diff /root/before /root/after
	}
	ip link add lan0 type dummy
	ip link add wan0 type dummy
	ip addr add 10.101.1.1/24 dev lan0
	ip addr add 192.0.2.1/24 dev wan0
	ip link set lan0 up
	ip link set wan0 up
	hosts
	everything >/root/before
	verdict 'dpkg -i starts both units' eval 'dpkg -i /root/debs/longreach_*.deb && within 20 is_active'
	verdict 'it runs as its own user' is_user
	verdict 'a link file that appears is a link after a reload' added
	verdict 'a killed daemon is back, and its link' killed
	verdict 'a link file that has gone is none' removed
	verdict 'two links carry what their hosts write' two_links
	verdict 'a link comes and goes beside them' changed_under_traffic
	verdict 'a worker that hangs: the watchdog restarts the daemon, the hosts go on' worker_hung
	rm -f /etc/longreach/esashi.conf /etc/longreach/nemuro.conf
	verdict 'it stops' eval 'systemctl stop longreachd && ! systemctl is-active longreachd'
	verdict 'without it, rules that are flushed come back' guarded
	verdict 'it starts' eval 'systemctl start longreachd && is_active'
	echo "score $(systemd-analyze security longreachd 2>/dev/null | grep -o 'exposure level.*' | sed 's/.*: *//')"
	verdict 'a purge leaves nothing' purged
	echo "$passed passed, $bad failed"
	systemctl poweroff --force --force
	exit
fi

for program in debootstrap qemu-system-x86_64 cpio; do
	command -v $program >/dev/null && continue
	echo "skipped: $program is missing"
	exit 0
done
[ "$(id -u)" = 0 ] || { echo "skipped: a root file system takes root" && exit 0; }
[ -e "$(echo $package/longreach_*.deb)" ] || { echo "FAIL there are no packages: make deb" && exit 1; }

# shellcheck source=deb_base.sh
. tests/deb_base.sh
deb_base $base iproute2 kmod # a machine with Debian's kernel has kmod; the test makes interfaces

# The kernel of the guests, Debian's own.
mkdir -p $vm
if [ ! -e $vm/complete ]; then
	kernel=$(apt-cache depends linux-image-amd64 | awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ { print $2; exit }')
	chmod 777 $vm
	(cd $vm && apt-get download -qq "$kernel") && dpkg-deb -x $vm/linux-image*.deb $vm/kernel || {
		echo "skipped: no kernel: apt-get download $kernel fails"
		exit 0
	}
	touch $vm/complete
fi

tools=${O:-build/gcc}/tools
make -s O="${O:-build/gcc}" "$tools/rcperf" || exit 1

trap 'rm -rf $root $vm/initrd' EXIT
rm -rf $root
cp -a $base $root
release=$(ls $vm/kernel/lib/modules)
for folder in net drivers/net lib crypto; do
	mkdir -p "$root/lib/modules/$release/kernel/$folder"
done
cp -a "$vm/kernel/lib/modules/$release/kernel/net/netfilter" "$root/lib/modules/$release/kernel/net/"
cp -a "$vm/kernel/lib/modules/$release/kernel/net/ipv"[46] "$root/lib/modules/$release/kernel/net/"
cp -a "$vm/kernel/lib/modules/$release/kernel/drivers/net/"{dummy,veth}.ko "$root/lib/modules/$release/kernel/drivers/net/"
cp -a "$vm/kernel/lib/modules/$release/kernel/"{lib,crypto} "$root/lib/modules/$release/kernel/"
cp -a "$vm/kernel/lib/modules/$release/"modules.{builtin,order,builtin.modinfo} "$root/lib/modules/$release/"
depmod -b "$root/usr" "$release" 2>/dev/null || depmod -b $root "$release"
mkdir -p $root/root/debs
cp $package/longreach_*.deb $root/root/debs
cp tests/deb_boot.sh "$tools/rcperf" $root/root/
cat >$root/etc/systemd/system/deb-boot.service <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=simple
ExecStart=/bin/bash /root/deb_boot.sh guest
WorkingDirectory=/root
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
UNIT
mkdir -p $root/etc/systemd/system/multi-user.target.wants
ln -sf ../deb-boot.service $root/etc/systemd/system/multi-user.target.wants/
ln -sf /usr/lib/systemd/systemd $root/init
(cd $root && find . -xdev \( -path ./var/cache -o -path ./usr/share/locale -o -path ./usr/share/doc -o -path ./var/lib/apt -o -path ./usr/share/zoneinfo \) -prune -o -print0 |
	cpio --null -o -H newc --quiet) >$vm/initrd

timeout 900 qemu-system-x86_64 -accel tcg,tb-size=256 -cpu max -m 3072 -smp 1 -nodefaults -display none -no-reboot \
	-kernel "$vm/kernel/boot/vmlinuz-$release" -initrd $vm/initrd \
	-append 'console=ttyS0 quiet loglevel=3 systemd.show_status=no systemd.unit=multi-user.target systemd.mask=getty.target panic=-1' \
	-serial file:build/package-root/console </dev/null
tr -d '\r' <build/package-root/console | grep -aE '^(FAIL|score|[0-9]+ passed)|^    ' || tail -5 build/package-root/console
tr -d '\r' <build/package-root/console | grep -qaE '^[1-9][0-9]* passed, 0 failed'
