#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a 4 KiB packet costs in the core: nanoseconds (bench_core) and instructions (bench_core under callgrind), beside
# memcpy + ICRC of the same bytes in the same run. Built for any x86-64: valgrind knows no AVX-512.
#
#   bench/bench_core.sh [-n PACKETS] [-p]      -p: also the functions in which each path spends its instructions
set -eu

packets=20000
profile=
while getopts n:p opt; do
	case $opt in
	n) packets=$OPTARG ;;
	p) profile=1 ;;
	*)
		echo "usage: $0 [-n PACKETS] [-p]" >&2
		exit 2
		;;
	esac
done

cd "$(dirname "$0")/.."
build=${O:-build/bench}
make -s O="$build" "$build/bench/bench_core"
ln -sf bench/bench_core "$build/bench_core"
echo
"$build/bench_core" --seal aes-256-gcm

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT INT TERM

"$build/bench_core"

# Instructions per packet that are spent in the functions named, with what $seal says.
instructions() {
	name=$1
	shift
	toggles=
	for fn in "$@"; do
		toggles="$toggles --toggle-collect=$fn"
	done
	# shellcheck disable=SC2086
	valgrind --tool=callgrind $toggles --callgrind-out-file="$out/$name" \
		"$build/bench_core" $seal --packets "$packets" >"$out/$name.log" 2>&1 || {
		cat "$out/$name.log" >&2
		exit 1
	}
	awk '/^packets/ { n = $2 } /Collected/ { c = $NF } END { printf "%.0f\n", c / n }' "$out/$name.log"
}

table() { # of what the bare cost consists
	near=$(instructions near section_near_in section_near_out)
	reports=$(instructions reports section_reports)
	far=$(instructions far section_far_in section_far_acks)
	bytes=$(instructions bytes section_bytes)
	aead=0
	[ -z "$seal" ] || aead=$(instructions aead section_aead)

	echo
	awk -v near="$near" -v reports="$reports" -v far="$far" -v bytes="$bytes" -v aead="$aead" -v n="$packets" -v bare="$1" '
	function row(name, v) { printf "%-38s %12d %22.2f\n", name, v, v / (bytes + aead) }
	BEGIN {
		printf "instructions (callgrind, %d packets)\n%-38s %12s %22s\n", n, "", "per packet", "x (" bare ")"
		row("near: lan_rx, ACK, wan_tx", near)
		row("near: reports in", reports)
		row("far: wan_rx, lan_tx, ACK in, wan_tx", far)
		row("memcpy + ICRC check", bytes)
		if (aead)
			row("AEAD alone", aead)
	}'
}

seal="--seal aes-256-gcm"
table "memcpy+ICRC+AEAD"
seal=
table "memcpy + ICRC"

[ -n "$profile" ] || exit 0
for path in near reports far; do
	echo
	echo "$path: where the instructions go"
	callgrind_annotate --threshold=95 "$out/$path" 2>/dev/null | awk '/^ *[0-9,]+ \(/ { print }' | cut -c1-110 | head -25
done
