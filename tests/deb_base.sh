#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# deb_base.sh - root file systems of Debian 12 for the tests of the packages; sourced by deb.sh and deb_boot.sh.

# deb_base FOLDER [PACKAGE...]: a minimal root with what the package longreach depends on and the named packages; kept for the
# next time. Ends the test if there is none to be had.
deb_base() {
	local needs
	[ ! -e "$1/complete" ] || return 0
	needs=$(dpkg-deb -f build/package/longreach_*.deb Depends | tr ',' '\n' | sed 's/(.*//; s/|.*//' | tr -d ' ' | cat - <(printf '%s\n' "${@:2}") | paste -sd,)
	rm -rf "$1"
	mkdir -p "$1"
	debootstrap --variant=minbase --include="$needs" bookworm "$1" >build/package-root/debootstrap.log 2>&1 || {
		echo "skipped: debootstrap fails: $(tail -1 build/package-root/debootstrap.log)"
		exit 0
	}
	touch "$1/complete"
}
