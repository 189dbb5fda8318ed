#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build_guest.sh - kernel and initramfs of the test guests, and the two programs that talk to them.
#
#   build_guest.sh [DIR]      default: build/vm at the top of the tree
#
# Leaves in DIR: vmlinuz, initrd, vmrun (host side), and prints DIR. The kernel is Debian's stock one, because it has
# rdma_rxe; the userland is what this machine has installed (perftest, rdma-core), copied with the libraries that
# ldd names. Nothing is rebuilt while the inputs (this script, the sources, the package versions) stay the same.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
vm=$top/tests/vm
out=${1:-$top/build/vm}
CC=${CC:-gcc}
WARN="-Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror"

# Packages whose programs go into the guest or are needed to build it.
packages="busybox-static iproute2 ethtool kmod cpio perftest rdmacm-utils ibverbs-utils qperf ibverbs-providers
	libibverbs-dev librdmacm-dev"
programs="ip tc rdma ethtool rping ibv_devinfo ibv_rc_pingpong qperf ib_write_bw ib_send_bw ib_read_bw ib_atomic_bw
	ib_write_lat ib_send_lat ib_read_lat ib_atomic_lat"
# What the guests need of the kernel, in the order of loading; what some tests load; sch_netem is for experiments.
modules="virtio_pci virtio_net crc32_generic ib_uverbs rdma_ucm rdma_rxe"
modules_on_demand="nvme_rdma nvmet_rdma null_blk sch_netem ifb sch_ingress cls_matchall act_mirred crc32c_generic nf_tables nft_ct
	nft_limit tun veth"

say() { echo "build_guest: $*" >&2; }
die() { say "$*"; exit 1; }

install_packages() {
	missing=
	for p in $packages qemu-system-x86; do
		dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
	done
	[ -z "$missing" ] && return
	say "installing$missing"
	# shellcheck disable=SC2086
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null ||
		die "apt-get install$missing failed"
}

kernel_package() {
	apt-cache depends linux-image-amd64 2>/dev/null |
		awk '$1 == "Depends:" && $2 ~ /^linux-image-[0-9]/ { print $2; exit }'
}

# Unpacked kernel of package $1 at $out/kernel.
fetch_kernel() {
	[ -f "$out/kernel/.$1" ] && return
	say "fetching $1"
	rm -rf "$out/kernel" "$out/deb"
	mkdir -p "$out/kernel" "$out/deb"
	chmod 777 "$out/deb" # apt drops its privileges for the download
	(cd "$out/deb" && apt-get download -qq "$1" >/dev/null) || die "apt-get download $1 failed"
	dpkg-deb -x "$out"/deb/*.deb "$out/kernel"
	rm -rf "$out/deb"
	depmod -b "$out/kernel" "$(ls "$out/kernel/lib/modules")"
	touch "$out/kernel/.$1"
}

# copy_file PATH: a file under its own path, links followed.
copy_file() {
	[ -e "$root$1" ] && return
	mkdir -p "$root$(dirname "$1")"
	cp -L "$1" "$root$1"
}

# copy_elf PATH: a program or library and everything that it is linked with.
copy_elf() {
	copy_file "$1"
	ldd "$1" 2>/dev/null | awk '{ for (i = 1; i <= NF; i++) if ($i ~ /^\//) print $i }' | while read -r lib; do
		copy_file "$lib"
	done
}

copy_userland() {
	mkdir -p "$root/bin" "$root/sbin" "$root/etc" "$root/proc" "$root/sys" "$root/dev" "$root/run" "$root/tmp"
	cp "$(command -v busybox)" "$root/bin/busybox"
	for applet in $("$root/bin/busybox" --list); do
		case $applet in ip | tc | busybox) continue ;; esac
		ln -s busybox "$root/bin/$applet"
	done
	for prog in $programs; do
		path=$(command -v "$prog") || die "$prog is not installed"
		copy_elf "$path"
		ln -sf "$path" "$root/bin/$prog" 2>/dev/null || true
	done
	# Opened by name at run time, so ldd does not know them.
	provider=$(find /usr/lib -name 'librxe-rdmav*.so' | head -n 1)
	[ -n "$provider" ] || die "no librxe provider (package ibverbs-providers)"
	copy_elf "$provider"
	copy_file /etc/libibverbs.d/rxe.driver
	for lib in libnss_files.so.2 libnss_dns.so.2 libgcc_s.so.1; do
		copy_elf "$(ldconfig -p | awk -v l="$lib" '$1 == l && /x86-64/ { print $NF; exit }')"
	done
	printf 'hosts: files\n' >"$root/etc/nsswitch.conf"
	printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
	printf 'root:x:0:0:root:/:/bin/sh\n' >"$root/etc/passwd"
}

copy_modules() {
	kver=$(ls "$out/kernel/lib/modules")
	for m in $modules $modules_on_demand; do
		modprobe -d "$out/kernel" -S "$kver" --show-depends "$m" |
			awk '$1 == "insmod" { print $2 }'
	done | sort -u | sed "s|^$out/kernel||" | while read -r ko; do
		# CRCs by PCLMUL are the faster ones on silicon and the slower ones under emulation.
		case $ko in *pclmul*) continue ;; esac
		mkdir -p "$root$(dirname "$ko")"
		cp "$out/kernel$ko" "$root$ko"
	done
	cp "$out/kernel/lib/modules/$kver"/modules.builtin* "$out/kernel/lib/modules/$kver/modules.order" \
		"$root/lib/modules/$kver/"
	depmod -b "$root" "$kver"
	echo "$modules" | tr -s ' \t\n' '\n' >"$root/etc/modules"
}

build_programs() {
	# shellcheck disable=SC2086
	$CC -std=gnu17 $WARN -O2 -g -static -o "$root/sbin/agent" "$vm/agent.c"
	# shellcheck disable=SC2086
	$CC -std=gnu17 $WARN -O2 -g -o "$out/vmrun" "$vm/vmrun.c"
	# shellcheck disable=SC2086
	$CC -std=gnu17 $WARN -O2 -g -o "$root/bin/rccheck" "$vm"/rccheck/*.c -lrdmacm -libverbs
	# shellcheck disable=SC2086
	$CC -std=gnu17 $WARN -O2 -g -shared -fPIC -o "$root/bin/late_connect.so" "$vm/late_connect.c"
	copy_elf "$root/bin/rccheck" 2>/dev/null || true
	ldd "$root/bin/rccheck" | awk '{ for (i = 1; i <= NF; i++) if ($i ~ /^\//) print $i }' | while read -r lib; do
		copy_file "$lib"
	done
}

inputs_key() {
	{
		cat "$vm/build_guest.sh" "$vm/init.sh" "$vm/agent.c" "$vm/vmrun.c" "$vm/late_connect.c" "$vm"/rccheck/*.[ch]
		# shellcheck disable=SC2086
		dpkg-query -W $packages
		echo "$1 $CC"
	} | sha256sum | cut -d' ' -f1
}

install_packages
pkg=$(kernel_package)
if [ -z "$pkg" ]; then
	apt-get update -qq
	pkg=$(kernel_package)
fi
[ -n "$pkg" ] || die "linux-image-amd64 is not known to apt"
mkdir -p "$out"
key=$(inputs_key "$pkg")
if [ "$(cat "$out/key" 2>/dev/null)" = "$key" ] && [ -f "$out/initrd" ] && [ -x "$out/vmrun" ]; then
	echo "$out"
	exit 0
fi

fetch_kernel "$pkg"
root=$out/root.$$
trap 'rm -rf "$root" "$out/initrd.$$"' EXIT
rm -rf "$root"
mkdir -p "$root"
say "building the initramfs"
copy_userland
copy_modules
build_programs
cp "$vm/init.sh" "$root/init"
chmod 755 "$root/init"
# Not compressed: unpacking under emulation costs more than reading.
(cd "$root" && find . | cpio -o -H newc --quiet) >"$out/initrd.$$"
mv "$out/initrd.$$" "$out/initrd"
cp "$out/kernel/boot"/vmlinuz-* "$out/vmlinuz"
echo "$key" >"$out/key"
say "initrd $(($(stat -c %s "$out/initrd") / 1024)) KiB, kernel $pkg"
echo "$out"
