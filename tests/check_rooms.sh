#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# proxy/ against the table of rooms (rooms.txt): each include must be listed, each call goes to a room that may be
# included, and the table has no circle.
#
#   tests/check_rooms.sh BUILD      after `make O=BUILD`
set -euo pipefail
cd "$(dirname "$0")/.."
table=tests/rooms.txt
build=${1:?usage: tests/check_rooms.sh BUILD}

# A room and one that it uses, each line.
pairs=$(awk '!/^#/ && NF { sub(":", "", $1); for (i = 2; i <= NF; i++) print $1, $i }' $table)

tsort <<<"$pairs" >/dev/null || {
	echo "check-rooms: the rooms named above use each other in a circle ($table)" >&2
	exit 1
}

includes() {
	grep -rHo --include='*.[ch]' '^#include "proxy/[^"]*' proxy | sed 's/:#include "/ /; s/^/include /'
}

symbols() {
	local src
	find proxy -name '*.c' | while read -r src; do
		nm "$build/${src%.c}.o" | awk -v src="$src" 'NF == 2 && $1 == "U" { print "needs", src, $2 }
			NF == 3 && $2 ~ /[TDRBG]/ { print "defines", src, $3 }'
	done
}

{ includes && symbols; } | awk -v pairs="$pairs" -v table=$table '
	function room(path) {
		if (path == "proxy/proxy.h")
			return "api"
		sub("/[^/]*$", "", path)
		sub("^proxy/?", "", path)
		return path == "" ? "top" : path
	}
	# What top defines and others call is declared in proxy.h.
	function check(from, to, what) {
		if (from == to || (from " " to) in may || (what ~ / calls / && to == "top" && (from " api") in may))
			return
		print "check-rooms: " what ": room " from " may not use room " to " (" table ")" >"/dev/stderr"
		bad = 1
	}
	BEGIN {
		k = split(pairs, a, "\n")
		for (i = 1; i <= k; i++)
			may[a[i]] = 1
	}
	$1 == "include" { check(room($2), room($3), $2 " includes " $3); includes++ }
	$1 == "defines" { of[$3] = room($2) }
	$1 == "needs" { need[++n] = $2; symbol[n] = $3 }
	END {
		for (i = 1; i <= n; i++)
			if (symbol[i] in of) {
				check(room(need[i]), of[symbol[i]], need[i] " calls " symbol[i] "()")
				calls++
			}
		if (bad)
			exit 1
		print "check-rooms: " includes " includes and " calls " uses of other files, no circle"
	}'
