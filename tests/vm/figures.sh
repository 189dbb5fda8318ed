# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# figures.sh - throughputs side by side: medians, ratios, the table; sourced by run.sh.

median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] + 0 }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", (b + 0 != 0 ? a / b : 0) }'; }
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a >= b) }'; }

# perftest measures the clock of its processor first, and says 0 where that fails, on a machine with much other work.
perf_says() { # as perf, and must print a rate
	perf "$@" && [ "$gbps" != 0 ]
}

# once MODE KM NAME N ARGS...: one throughput, kept under MODE-NAME.
once() {
	local m=$1 name=$3
	[ "$line_km" = "$2" ] || line_set "$2" "$line_loss" "$line_reorder" "$line_dup"
	[ "$mode" = "$m" ] || use "$m"
	if ! perf_says "$name" "${@:5}" -n "$4" &&
		! { [ "$pair_detail" = "exit 0/0" ] && perf_says "$name" "${@:5}" -n "$4"; }; then
		bad "$name" "$pair_detail, $gbps Gbit/s"
		show "$m-$name"
	fi
	echo "$gbps" >>"$work/$m-$name.gbps"
	note "$m $name: $gbps Gbit/s"
}

# median_of MODE NAME: prints it and puts it into the table.
median_of() {
	local v
	v=$(median <"$work/$1-$2.gbps")
	echo "$1 $2 $v" >>"$table"
	echo "$v"
}

verdict() { # NAME VALUE BOUND
	if at_least "$2" "$3"; then ok "$1" "$2 (at least $3)"; else bad "$1" "$2 (at least $3)"; fi
}

verdict_at_most() { # NAME VALUE BOUND
	if at_least "$3" "$2"; then ok "$1" "$2 (at most $3)"; else bad "$1" "$2 (at most $3)"; fi
}

# Compared figures are measured in turns, because the machine has other work.
accept_distance() {
	local args="ib_write_bw -s 65536 -m 4096 -t 1" i near_far direct_far near_0
	wanted distance || return
	impair 0 0 0 0
	for i in 1 2 3; do
		# shellcheck disable=SC2086
		{
			once direct 0 write-m4096-t1-0km 1000 $args
			once direct 1000 write-m4096-t1-1000km 100 $args
			once near 1000 write-m4096-t1-1000km 1500 $args
			once near 0 write-m4096-t1-0km 1500 $args
		}
	done
	median_of direct write-m4096-t1-0km >/dev/null
	near_0=$(median_of near write-m4096-t1-0km)
	direct_far=$(median_of direct write-m4096-t1-1000km)
	near_far=$(median_of near write-m4096-t1-1000km)
	verdict "1000 km, near / direct" "$(ratio "$near_far" "$direct_far")" 4
	verdict "1000 km / 0 km, near" "$(ratio "$near_far" "$near_0")" 0.8
}

accept_loss() {
	local name=write-m1024-300km-1% i
	wanted loss || return
	impair 300 1% 0 0
	for i in 1 2 3; do
		once direct 300 $name 150 ib_write_bw -s 65536 -m 1024
		once near 300 $name 600 ib_write_bw -s 65536 -m 1024
	done
	verdict "300 km, 1 % loss, near / direct" "$(ratio "$(median_of near $name)" "$(median_of direct $name)")" 3
}

suite_accept() {
	local m
	perf_seconds=120
	accept_distance
	accept_loss
	impair 300 0 0 0
	for m in ${modes:-near host}; do
		use "$m"
		check_latency
		check_cut ""
	done
}

# One throughput directly and in mode near, for the ratio; asserts nothing.
compare() {
	local name direct near
	name=compare-$(perf_name "$@")
	[ "${modes:-near}" = near ] && [[ $name =~ $only ]] || return
	use near
	perf "$name" "$@" && near=$gbps
	use direct
	perf "$name" "$@" && direct=$gbps
	echo "direct $name ${direct:-0}" >>"$table"
	echo "near $name ${near:-0}" >>"$table"
}

# Gbit/s by program and mode, and the ratios.
print_table() {
	[ -s "$table" ] || return
	printf '\n%-44s %9s %9s %9s %9s\n' "Gbit/s" direct near host near/direct
	awk '{ v[$2, $1] = $3; if (!seen[$2]++) order[++n] = $2 }
		function cell(x) { return x == "" ? "-" : sprintf("%.4f", x) }
		END { for (i = 1; i <= n; i++) { k = order[i]; d = v[k, "direct"]; m = v[k, "near"]
			printf "%-44s %9s %9s %9s %9s\n", k, cell(d), cell(m), cell(v[k, "host"]),
				(d + 0 != 0 && m != "" ? sprintf("%.2f", m / d) : "-") } }' "$table"
	echo
}
