#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A few steps of chaos.sh, always the same ones; FULL=1: five hundred.
here=$(dirname "$0")
if [ -n "${FULL:-}" ]; then
	exec bash "$here/chaos.sh" 500
fi
BACK_WITHIN_MS=6000 exec bash "$here/chaos.sh" 5 47
