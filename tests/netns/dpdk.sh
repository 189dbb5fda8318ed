# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# dpdk.sh - what the tests of Engine=dpdk need of the machine. To be sourced after lab.sh and check.sh.
#
# $MISSING, if it is not empty: no test of the file can run, and check "NAME" skipped says why.

# Whose frames fit a place of the link's buffer.
# shellcheck disable=SC2034
DEVICE=net_af_packet0,iface=lan0,framesz=4288,blocksz=274432,framecnt=256

MISSING=
[ -e "$LAB_BIN/plugins/longreach-dpdk.so" ] || MISSING="longreach-dpdk.so is not built (make dpdk; it needs libdpdk-dev)"
compgen -G "/usr/lib/*/dpdk/pmds-*/librte_net_af_packet.so" >/dev/null || MISSING="DPDK's net_af_packet driver is not here"

skipped() {
	WHY=$MISSING
	return 77
}
