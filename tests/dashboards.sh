#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# dashboards.sh - checks the alert rules and the Grafana dashboard in etc/: rules parse and fire as in tests/prometheus, every
# query of the dashboard parses, and its panels have the same form. tests/unit/test_metrics.c and tests/netns/test_metrics.sh
# check that the daemon serves their metrics.
set -u
cd "$(dirname "$0")/.." || exit 2
rules=etc/prometheus/longreach.rules.yml
board=etc/grafana/longreach.json

command -v jq >/dev/null || { echo "skipped: jq is missing" && exit 0; }

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

# Replaces Grafana's variables and writes each query as a rule: promtool parses only rules.
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

# Panels have different ids, are within the 24 columns, and do not overlap.
panels_apart() {
	jq -e '[.panels[].id] | length == (unique | length)' $board &&
		jq -e '[.panels[].gridPos | select(.x < 0 or .y < 0 or .w < 1 or .h < 1 or .x + .w > 24)] == []' $board &&
		jq -e '[.panels[].gridPos | range(.x; .x + .w) as $x | range(.y; .y + .h) as $y | [$x, $y]] | length == (unique | length)' $board
}

# Each panel has a title, a unit, and queries for the chosen edges and links, each with its own legend. A link has the same name
# at both edges: no query adds edges up, and each legend names the edge.
panels_alike() {
	jq -e '[.panels[] | select(.title == "" or .fieldConfig.defaults.unit == null or .datasource.uid != "${datasource}")] == []' $board &&
		jq -e '[.panels[].targets[] | select(.expr | contains("{instance=~\"$instance\"") | not)] == []' $board &&
		jq -e '[.panels[].targets[] | select(.expr | [scan("by \\(([^)]*)\\)")[0] | select(test("\\binstance\\b") | not)] != [])] == []' $board &&
		jq -e '[.panels[].targets[] | select(.expr | test("(sum|min|max|avg|count) *\\("))] == []' $board &&
		jq -e '[.panels[].targets[] | select(.legendFormat | contains("{{instance}}") | not)] == []' $board &&
		jq -e '[.panels[] | [.targets[] | .legendFormat, .refId] | select(length != (unique | length) or any(. == ""))] == []' $board
}

# Every alert has a description, and a test in which it fires.
alerts_tested() {
	local alert
	for alert in $(sed -n 's/^ *- alert: //p' $rules); do
		grep -q "alertname=\"$alert\"" tests/prometheus/rules_test.yml || { echo "no test of $alert" && return 1; }
	done
	[ "$(grep -c '^ *- alert:' $rules)" = "$(grep -c '^ *description:' $rules)" ]
}

if command -v promtool >/dev/null; then
	verdict 'rules parse' promtool check rules $rules
	verdict 'rules fire' promtool test rules tests/prometheus/rules_test.yml
	verdict 'queries of the dashboard parse' queries_parse
else
	echo 'skipped: rules and queries: promtool is missing (package prometheus)'
fi
verdict 'each alert is tested' alerts_tested
verdict 'panels of the dashboard lie apart' panels_apart
verdict 'panels of the dashboard are made alike' panels_alike
echo "$passed passed, $bad failed"
exit $bad
