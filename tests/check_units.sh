#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check_units.sh - checks the exposure of the systemd units by `systemd-analyze security`: 0.0 (none) to 10.0. Refuses settings
# by which systemd deletes buffers: RemoveIPC= empties /dev/shm, a tmpfs, of the user's files when its last unit stops.
#
#   tests/check_units.sh LIMIT UNIT...      fails if one is above LIMIT, 2.5 for instance
limit=$1
shift
bad=0
for unit in "$@"; do
	if deletes=$(grep -nE '^(RemoveIPC|DynamicUser)=(yes|true|on|1)' "$unit"); then
		echo "check-units: $unit:$deletes: systemd would delete buffers in /dev/shm, and what hosts believe delivered, at a stop" >&2
		bad=1
	fi
	score=$(systemd-analyze security --offline=true "$unit" 2>&1 | sed -n 's/.*exposure level for .*: \([0-9.]*\) .*/\1/p')
	if [ -z "$score" ]; then
		echo "check-units: no score for $unit: $(systemd-analyze security --offline=true "$unit" 2>&1 | head -1)" >&2
		bad=1
	elif awk "BEGIN { exit !($score > $limit) }"; then
		echo "check-units: $unit has an exposure of $score, more than $limit: see systemd-analyze security" >&2
		bad=1
	else
		echo "check-units: $unit: $score, at most $limit"
	fi
done
exit $bad
