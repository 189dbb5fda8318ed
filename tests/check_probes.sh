#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares the probes in longreachd with those in longreach-probes(7).
#
#   tests/check_probes.sh BUILD      after `make O=BUILD`
set -euo pipefail
cd "$(dirname "$0")/.."
daemon=${1:?usage: tests/check_probes.sh BUILD}/longreachd
page=etc/man/longreach-probes.7

built=$(readelf -n "$daemon" | awk '/Provider: longreach/ { getline; print $2 }' | sort -u)
documented=$(sed -n '/^\.SH PROBES/,/^\.SH SEE/ { /^\.TP/ { n; s/^\.B //p } }' $page | sort)
[ -n "$built" ] || { echo "check-probes: $daemon has no probes: was sys/sdt.h (systemtap-sdt-dev) there?" >&2; exit 1; }
diff <(echo "$built") <(echo "$documented") >/dev/null || {
	echo "check-probes: '<' is in $daemon alone, '>' in $page alone:" >&2
	diff <(echo "$built") <(echo "$documented") >&2 || true
	exit 1
}
echo "check-probes: $(wc -l <<<"$built") probes, each documented"
