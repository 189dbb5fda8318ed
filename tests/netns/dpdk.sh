# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# dpdk.sh - requirements of the Engine=dpdk tests on the machine. To be sourced after lab.sh and check.sh.
#
# $MISSING: if not empty, no test of the file can run, and check "NAME" skipped prints it as the reason.

# A device whose frames fit a slot of the link's buffer.
# shellcheck disable=SC2034
DEVICE=net_af_packet0,iface=lan0,framesz=4288,blocksz=274432,framecnt=256

# The same for the WAN, and packets of 9,000 bytes. Rings are locked memory, and a daemon that is started again without
# rights may lock 8 MiB here.
# shellcheck disable=SC2034
WAN_DEVICE=net_af_packet1,iface=wan0,framesz=9216,blocksz=36864,framecnt=256
# shellcheck disable=SC2034
EAL="--no-huge -m 256"

MISSING=
[ -e "$LAB_BIN/plugins/longreach-dpdk.so" ] || MISSING="longreach-dpdk.so is not built (make dpdk; it needs libdpdk-dev)"
compgen -G "/usr/lib/*/dpdk/pmds-*/librte_net_af_packet.so" >/dev/null || MISSING="DPDK's net_af_packet driver is not here"

skipped() {
	WHY=$MISSING
	return 77
}

# Beside lab_daemon_under(): an argument with blanks. Empty: the daemon as it is.
daemon_with() { # EAL arguments
	mkdir -p "$LAB_DIR/bin"
	printf '#!/bin/sh\nexec %s/longreachd --plugins %s/plugins --eal "%s" "$@"\n' "$LAB_DAEMONS" "$LAB_DAEMONS" "$1" \
		>"$LAB_DIR/bin/longreachd"
	ln -sf "$LAB_DAEMONS/longreach" "$LAB_DIR/bin/longreach"
	chmod 755 "$LAB_DIR/bin" "$LAB_DIR/bin/longreachd"
	LAB_BIN=$LAB_DIR/bin
}

says() { # words: the daemon's check of edge a's link file fails with them
	! lab_in ea "$LAB_BIN/longreachd" --check-config "$LAB_DIR/a/link.conf" 2>"$LAB_DIR/said" || why "it says that all is well" || return
	grep -q "$1" "$LAB_DIR/said" || why "it says: $(cat "$LAB_DIR/said")"
}
