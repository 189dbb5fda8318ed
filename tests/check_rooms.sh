#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the product's folders against the table of rooms (rooms.txt): each include must be listed, each call must go to a room
# that may be included, and the table must have no circle.
#
#   tests/check_rooms.sh BUILD      after `make O=BUILD`
set -euo pipefail
cd "$(dirname "$0")/.."
table=tests/rooms.txt
build=${1:?usage: tests/check_rooms.sh BUILD}

# Each line: a room, and a room that it uses.
pairs=$(awk '
	!/^#/ && $2 == "=" { for (i = 3; i <= NF; i++) several[$1] = several[$1] " " $i }
	!/^#/ && $1 ~ /:$/ {
		line = ""
		for (i = 2; i <= NF; i++)
			line = line " " ($i in several ? several[$i] : $i)
		sub(":", "", $1)
		n = split(line, uses, " ")
		for (i = 1; i <= n; i++)
			print $1, uses[i]
	}' $table)

tsort <<<"$pairs" >/dev/null || {
	echo "check-rooms: the rooms named above use each other in a circle ($table)" >&2
	exit 1
}

folders="proxy seal headroom plan daemon copy"

includes() {
	grep -rHoE --include='*.[ch]' '^#include "[^"]*/[^"]*' $folders | sed 's/:#include "/ /; s/^/include /'
}

symbols() {
	local src
	find $folders -name '*.c' | while read -r src; do
		nm "$build/${src%.c}.o" | awk -v src="$src" 'NF == 2 && $1 == "U" { print "needs", src, $2 }
			NF == 3 && $2 ~ /[TDRBG]/ { print "defines", src, $3 }'
	done
}

declared() {
	grep -o '\b[a-z][a-z0-9_]*(' proxy/proxy.h | sort -u | sed 's/(//; s/^/declares /'
}

{ includes && symbols && declared; } | awk -v pairs="$pairs" -v table=$table '
	function room(path) {
		if (path == "proxy/proxy.h")
			return "api"
		sub("/[^/]*$", "", path)
		sub("^proxy/?", "", path)
		return path == "" ? "top" : path
	}
	# A function that proxy.h declares may be called where proxy.h may be included. The same holds for functions that top
	# defines for the rooms below it.
	function allowed(from, to, symbol) {
		if (from == to || (from " " to) in may)
			return 1
		return symbol != "" && (symbol in declared || to == "top") && (from " api") in may
	}
	function check(from, to, what, symbol) {
		if (allowed(from, to, symbol))
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
	$1 == "declares" { declared[$2] }
	$1 == "defines" { of[$3] = room($2) }
	$1 == "needs" { need[++n] = $2; symbol[n] = $3 }
	END {
		for (i = 1; i <= n; i++)
			if (symbol[i] in of) {
				check(room(need[i]), of[symbol[i]], need[i] " calls " symbol[i] "()", symbol[i])
				calls++
			}
		if (bad)
			exit 1
		print "check-rooms: " includes " includes and " calls " uses of other files, no circle"
	}'
