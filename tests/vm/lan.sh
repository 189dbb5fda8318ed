# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# lan.sh - LANs that lose and reorder; sourced by run.sh.

# lan_trouble on|off: netem at both guests, 1 % lost, 1 % reordered, for packets that a guest sends and, through an ifb, for
# packets to it: the edges' own ACKs are lost as well. (A plain `tc` would be the shell's own applet there.)
lan_trouble() {
	local s do='tc=/usr/sbin/tc
		$tc qdisc del dev lan0 root 2>/dev/null; $tc qdisc del dev lan0 ingress 2>/dev/null; ip link del ifb0 2>/dev/null'
	# Every hundredth overtakes those of the 200 us before.
	[ "$1" = off ] || do+='
		how="delay 200us reorder 1% loss 1%"
		modprobe -a ifb sch_netem sch_ingress cls_matchall act_mirred || exit 1
		ip link show ifb0 >/dev/null 2>&1 || ip link add ifb0 type ifb
		ip link set ifb0 up mtu 9000 &&
		$tc qdisc add dev ifb0 root netem limit 10000 $how && $tc qdisc add dev lan0 root netem limit 10000 $how &&
		$tc qdisc add dev lan0 ingress &&
		$tc filter add dev lan0 ingress protocol all matchall action mirred egress redirect dev ifb0 || exit 1'
	for s in a b; do
		"$vm_build/vmrun" -n "$P-$s" "ip() { /usr/sbin/ip \"\$@\"; }; $do; true" >"$work/lan-trouble" 2>&1 ||
			die "no netem in guest $s: $(tail -n 1 "$work/lan-trouble")"
	done
}

# How many packets the netem of a guest's lan0 and of its ifb0 has dropped.
lan_lost() { # a|b
	"$vm_build/vmrun" -n "$P-$1" '/usr/sbin/tc -s qdisc show' |
		awk '/^qdisc/ { netem = $2 == "netem" } netem && /dropped/ { sub(/,/, "", $7); n += $7 } END { print n + 0 }'
}

# The end of lan_trouble. The check fails if the LAN has lost nothing: then nothing was tested.
lan_over() {
	local lost
	lost="$(lan_lost a) $(lan_lost b)"
	lan_trouble off
	wanted lan-lost || return
	if [ "${lost% *}" -gt 0 ] && [ "${lost#* }" -gt 0 ]; then
		ok lan-lost "$lost packets at the two guests"
	else
		bad lan-lost "$lost packets at the two guests: no test"
	fi
}

# READs and ATOMICs run apart from other operations: on a lossy LAN rxe completes READs and ATOMICs behind others without their
# answers, even with nothing between the guests.
suite_lan() {
	local m
	impair 300 0 0 0
	for m in ${modes:-direct near host}; do
		use "$m"
		lan_trouble on
		check_rc lan -P send,write,imm -q 2 -n 48
		check_rc lan-big -P send,write -s 1000000 --fixed -n 8 -d 4
		check_rc lan-read -P read -q 2 -n 48
		check_rc lan-atomics -P fadd,cas -q 2 -n 48
		lan_over
	done
}
