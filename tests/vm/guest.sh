# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# guest.sh - functions for starting test guests and running commands in them; sourced.
#
# A guest is one QEMU process inside a network namespace. Its lan0 is a TAP there (made by the caller), with every
# offload off and jumbo frames, so that what crosses the TAP is what would be on a wire. Its mgmt0 leads to QEMU's own
# user-mode network, through which vmrun reaches the agent at 127.0.0.1:7000 of that namespace.
#
# The processor model is chosen for emulation: PCLMUL and `rep movs` are slower than plain code under TCG.
#
# Needs: $vm_build (what build_guest.sh prints), $work (a scratch directory); $guest_initrd (default: that of $vm_build),
# $guest_wan (a second TAP, for wan0), $guest_mem (MiB, default: 1024), $guest_more_kargs and $guest_vhost may be set.
# $guest_vhost is a vhost-user socket of an edge, for lan0; the TAP is tcp0 then. Somebody must listen there when the guest
# starts; from then on QEMU connects again each time that it is made anew. Without vectors=0 the guest hangs in virtio_net's
# probe: QEMU 7.2 does not bring MSI-X and vhost-user together under TCG.

guest_cpu=qemu64,-pclmulqdq,+rdrand,+popcnt,+sse4.1,+sse4.2,+ssse3
guest_kargs="console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable clearcpuid=rep_good,erms
	random.trust_cpu=on no_timer_check nowatchdog audit=0"
guest_nic="csum=off,guest_csum=off,gso=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,host_tso4=off"
guest_nic="$guest_nic,host_tso6=off,host_ecn=off,host_ufo=off,mrg_rxbuf=on,host_mtu=9000,rx_queue_size=1024"

# guest_start NAME NETNS TAP MAC_PREFIX ADDR/LEN GW ADDR6/LEN GW6: starts it, its pid goes to $work/NAME.pid.
guest_start() {
	local wan='' tap=lan:01 vhost='' mem=${guest_mem:-1024}
	[ -z "${guest_vhost:-}" ] || tap=tcp:04 vhost="-object memory-backend-memfd,id=mem,size=${mem}M,share=on -machine memory-backend=mem
		-chardev socket,id=edge,path=$guest_vhost,reconnect=1 -netdev vhost-user,id=lan,chardev=edge
		-device virtio-net-pci,netdev=lan,mac=$4:01,romfile=,vectors=0,$guest_nic"
	[ -z "${guest_wan:-}" ] || wan="-netdev tap,id=wan,ifname=$guest_wan,script=no,downscript=no,vhost=off
		-device virtio-net-pci,netdev=wan,mac=$4:03,romfile=,$guest_nic"
	# shellcheck disable=SC2086
	ip netns exec "$2" qemu-system-x86_64 \
		-accel tcg,tb-size=128 -cpu "$guest_cpu" -m "$mem" -smp 1 -nodefaults -no-user-config -display none \
		-no-reboot -kernel "$vm_build/vmlinuz" -initrd "${guest_initrd:-$vm_build/initrd}" \
		-append "$(echo $guest_kargs) lr.addr=$5 lr.gw=$6 lr.addr6=$7 lr.gw6=$8 ${guest_more_kargs:-}" \
		-serial "file:$work/$1.console" \
		-netdev "tap,id=${tap%:*},ifname=$3,script=no,downscript=no,vhost=off" \
		-device "virtio-net-pci,netdev=${tap%:*},mac=$4:${tap#*:},romfile=,$guest_nic" $vhost $wan \
		-netdev "user,id=mgmt,restrict=on,hostfwd=tcp:127.0.0.1:7000-:7000" \
		-device "virtio-net-pci,netdev=mgmt,mac=$4:02,romfile=" \
		</dev/null >"$work/$1.qemu" 2>&1 &
	echo $! >"$work/$1.pid"
	disown $! # the shell need not tell of its end
}

# guest_wait NAME NETNS SECONDS: until its agent answers.
guest_wait() {
	if ! "$vm_build/vmrun" -n "$2" -w "$3" true; then
		echo "guest $1 did not come up:" >&2
		tail -n 20 "$work/$1.qemu" "$work/$1.console" >&2
		return 1
	fi
}

guest_stop() {
	[ -f "$work/$1.pid" ] || return 0
	guest_pid=$(cat "$work/$1.pid")
	rm -f "$work/$1.pid"
	while kill -9 "$guest_pid" 2>/dev/null; do sleep 0.05; done
}
