#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Cost of a 4 KiB packet in the core: nanoseconds (bench_core) and instructions (bench_core under callgrind), beside
# memcpy + ICRC (+ AEAD) of the same bytes in the same run. bench_core is built for any x86-64, as valgrind knows no AVX-512.
#
#   bench/bench_core.sh [-n PACKETS] [-p]      -p: also the functions in which each path spends its instructions
#   QUICK=1 bench/bench_core.sh                nanoseconds of a sealed link alone
set -euo pipefail

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
. bench/bench.sh
build=${O:-build/bench}
bin=$build/bench/bench_core
make -s O="$build" "$bin"

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT INT TERM

# Prints the instructions per packet in the named functions, with the options of $seal.
instructions() {
	local name=$1 toggles= fn
	shift
	for fn in "$@"; do
		toggles="$toggles --toggle-collect=$fn"
	done
	# shellcheck disable=SC2086
	valgrind --tool=callgrind $toggles --callgrind-out-file="$out/$name" \
		"$bin" $seal --packets "$packets" >"$out/$name.log" 2>&1 || {
		cat "$out/$name.log" >&2
		exit 1
	}
	awk '/^packets/ { n = $2 } /Collected/ { c = $NF } END { printf "%.0f\n", c / n }' "$out/$name.log"
}

table() { # the parts of the bare cost
	local near reports far bytes aead=0
	near=$(instructions near section_near_in section_near_out)
	reports=$(instructions reports section_reports)
	far=$(instructions far section_far_in section_far_acks)
	bytes=$(instructions bytes section_bytes)
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

# A packet on a sealed link may cost 1.5 times its bare cost: copy, ICRC and cipher.
judge() { # tables of a sealed link
	local what figure
	echo
	while IFS=$'\t' read -r what figure; do
		verdict "$what" "$figure" '<=' 1.5
	done < <(awk '/^held/ { unit = "ns, " $2 " packets held"; spread = 3 }
		/^instructions/ { unit = "instructions"; spread = 0 }
		/^(near: lan_rx|far: wan_rx)/ { print $1 " sealed packet / bare cost, " unit "\t" $(NF - spread) }' "$1")
}

"$bin" --seal aes-256-gcm | tee "$out/sealed"
if [ -z "${QUICK:-}" ]; then
	echo
	"$bin"
	seal="--seal aes-256-gcm"
	table "memcpy+ICRC+AEAD" | tee -a "$out/sealed"
	seal=
	table "memcpy + ICRC"
fi
judge "$out/sealed"

[ -n "$profile" ] || exit 0
for path in near reports far; do
	echo
	echo "$path: where the instructions go"
	callgrind_annotate --threshold=95 "$out/$path" 2>/dev/null | awk '/^ *[0-9,]+ \(/ { print }' | cut -c1-110 | head -25
done
