#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# list_files.sh - docs/FILES.md, made of the first sentence in the head of each file. `make docs` writes it, and `make
# check-docs` fails if it is not what is in the tree.
set -euo pipefail
cd "$(dirname "$0")/.."

cat <<'END'
# Files

What each file does, folder by folder: the first sentence of its own head. A header speaks for the source of the same name:
`wan_lane.h` stands for `wan_lane.c`, too. Folders that are not here (tests, bench, etc) have no such list. `make docs` makes
this page.
END
heads() { # folder
	local f
	for f in "$1"/*.[ch]; do
		[ -e "$f" ] || continue
		# A header says what its source does: the source has no line of its own then.
		[ "${f%.c}" = "$f" ] || [ ! -e "${f%.c}.h" ] || ! sentence "${f%.c}.h" | grep -q . || continue
		printf '| `%s` | %s |\n' "${f##*/}" "$(sentence "$f")"
	done
}
sentence() { # file
	awk '
		NR == 1 && /SPDX/ { next }
		!begun && !/^\/\* [a-z_0-9]+\.[ch] - / { exit }
		{ begun = 1; sub(/^\/\* [a-z_0-9]+\.[ch] - /, ""); sub(/^ \* ?/, ""); over = /\*\// || /^$/; sub(/ *\*\/.*/, "")
		  text = text (text == "" ? "" : " ") $0; if (over) exit }
		END { if (match(text, /[.:]( |$)/)) text = substr(text, 1, RSTART - 1); gsub(/\|/, "\\|", text); print text }' "$1"
}
for folder in proxy $(find proxy -mindepth 1 -type d | sort) daemon $(find daemon -mindepth 1 -type d | sort) seal headroom plan lib \
	copy/wire copy/server copy/client copy/back dpdk examples; do
	[ -d "$folder" ] || continue
	printf '\n## %s/\n\n| file | |\n|---|---|\n' "$folder"
	heads "$folder"
done
