#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# dashboards.sh - the alert rules and the Grafana dashboard in etc/: rules parse and fire as tests/prometheus says, every
# query of the dashboard parses. That the daemon serves what they ask for is tested by tests/netns/test_metrics.sh.
set -u
cd "$(dirname "$0")/.." || exit 2
rules=etc/prometheus/longreach.rules.yml
board=etc/grafana/longreach.json

for program in promtool jq; do
	command -v $program >/dev/null && continue
	echo "skipped: $program is missing (promtool is in the package prometheus)"
	exit 0
done

scratch=$(mktemp -d /tmp/lr-dashboards.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
bad=0
passed=0

verdict() { # what, command...
	local what=$1
	shift
	if "$@" >"$scratch/log" 2>&1; then
		passed=$((passed + 1))
	else
		echo "FAIL $what"
		cat "$scratch/log"
		bad=1
	fi
}

# Grafana's variables as what they stand for, and each query as a rule: promtool knows no other way to parse one.
queries_parse() {
	local n
	jq -r '.panels[].targets[].expr' $board |
		sed 's/\$__rate_interval/5m/g; s/\$instance/.*/g; s/\$link/.*/g' |
		jq -R '{record: "a", expr: .}' | jq -s '{groups: [{name: "dashboard", rules: .}]}' >"$scratch/board.json"
	! grep '\$' "$scratch/board.json" || return
	n=$(jq '.groups[0].rules | length' "$scratch/board.json")
	[ "$n" -gt 20 ] || { echo "only $n queries" && return 1; }
	promtool check rules "$scratch/board.json"
}

# Panels have numbers and places of their own.
panels_apart() {
	jq -e '[.panels[].id] | length == (unique | length)' $board &&
		jq -e '[.panels[].gridPos | [.x, .y]] | length == (unique | length)' $board
}

# Every alert has words, and a test that sees it fire.
alerts_tested() {
	local alert
	for alert in $(sed -n 's/^ *- alert: //p' $rules); do
		grep -q "alertname=\"$alert\"" tests/prometheus/rules_test.yml || { echo "no test of $alert" && return 1; }
	done
	[ "$(grep -c '^ *- alert:' $rules)" = "$(grep -c '^ *description:' $rules)" ]
}

verdict 'rules parse' promtool check rules $rules
verdict 'rules fire' promtool test rules tests/prometheus/rules_test.yml
verdict 'each alert is tested' alerts_tested
verdict 'queries of the dashboard parse' queries_parse
verdict 'panels of the dashboard' panels_apart
echo "$passed passed, $bad failed"
exit $bad
