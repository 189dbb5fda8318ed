#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Holds the models sonic-mellanox and sonic-barefoot against SONiC's own scripts, on random links. Their code is not
# part of this project: give a checkout of github.com/sonic-net/sonic-swss. Needs lua5.1 and jq.
#
#     O=build/gcc tests/headroom/sonic_lua.sh SONIC-SWSS [links [seed]]

here=$(cd "$(dirname "$0")" && pwd)
longreach=${O:-build/gcc}/longreach
swss=${1:?a checkout of sonic-swss} n=${2:-300} seed=${3:-$RANDOM}
failed=0

for vendor in mellanox barefoot; do
	same=0
	while IFS=$'\t' read -r options want; do
		# shellcheck disable=SC2086 # words
		got=$("$longreach" headroom --json --model "sonic-$vendor" $options | jq -r '"\(.xon) \(.xoff) \(.size)"')
		if [ "$got" = "$want" ]; then
			same=$((same + 1))
		else
			echo "sonic-$vendor $options: $got, the script says $want"
			failed=$((failed + 1))
		fi
	done < <(lua5.1 "$here/sonic_lua.lua" "$swss/cfgmgr/buffer_headroom_$vendor.lua" $vendor "$n" "$seed")
	echo "sonic-$vendor: $same of $n links alike (seed $seed)"
	[ $same = "$n" ] || failed=$((failed + 1))
done
[ $failed = 0 ]
