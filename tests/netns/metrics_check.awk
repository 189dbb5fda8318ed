# SPDX-License-Identifier: Apache-2.0
# Prometheus' text format 0.0.4, strictly: a HELP and a TYPE before the samples of each family, each family once and in
# one piece, names and labels as they must be, no series twice, counters that end in _total. Prints what is wrong.

function wrong(what) {
	printf "line %d: %s: %s\n", NR, what, $0
	bad = 1
}

# Consumes {name="value",...} at the start of `rest`; false if it is none.
function labels_are_sound(rest,    n) {
	while (match(rest, /^[a-zA-Z_][a-zA-Z0-9_]*="([^"\\]|\\["\\n])*"/)) {
		rest = substr(rest, RLENGTH + 1)
		n++
		if (rest == "")
			return n > 0
		if (substr(rest, 1, 1) != ",")
			return 0
		rest = substr(rest, 2)
	}
	return 0
}

/^# HELP / {
	if ($3 !~ /^[a-zA-Z_:][a-zA-Z0-9_:]*$/) wrong("no name")
	if ($3 in helped) wrong("a second HELP")
	if (NF < 4) wrong("no text")
	helped[$3] = 1
	family = ""
	expected = $3
	next
}
/^# TYPE / {
	if ($3 != expected) wrong("TYPE without its HELP in front")
	if ($4 != "counter" && $4 != "gauge" && $4 != "histogram") wrong("unknown type")
	if ($4 == "counter" && $3 !~ /_total$/) wrong("a counter without _total")
	if ($4 != "counter" && $3 ~ /_total$/) wrong("_total is for counters")
	family = $3
	type = $4
	families++
	next
}
{
	if (!match($0, /^[a-zA-Z_:][a-zA-Z0-9_:]*/)) { wrong("no sample"); next }
	name = substr($0, 1, RLENGTH)
	rest = substr($0, RLENGTH + 1)
	if (type == "histogram") {
		if (substr(name, 1, length(family)) != family || substr(name, length(family) + 1) !~ /^_(bucket|sum|count)$/)
			wrong("not of the histogram " family)
	} else if (name != family) {
		wrong("not of the family " family)
	}
	if (substr(rest, 1, 1) == "{") {
		if (!match(rest, /} [^ ]+$/)) { wrong("no value behind the labels"); next }
		at = RSTART
		series = name substr(rest, 1, at)
		value = substr(rest, at + 2)
		if (!labels_are_sound(substr(rest, 2, at - 2))) wrong("labels")
	} else {
		series = name
		value = substr(rest, 2)
	}
	if (value !~ /^-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?$/) wrong("no number")
	if (type == "counter" && name !~ /_seconds_total$/ && value !~ /^[0-9]+$/) wrong("a counter is whole")
	if (series in seen) wrong("a series twice")
	if (type == "histogram" && name ~ /_bucket$/) {
		if (match(series, /,le="[^"]*"/) == 0) wrong("a bucket without its bound")
		of = substr(series, 1, RSTART - 1)
		if (of == bucket_of && value + 0 < bucket) wrong("a bucket with less than the one before")
		bucket_of = of
		bucket = value + 0
	}
	if (type == "histogram" && name ~ /_count$/ && value + 0 != bucket) wrong("another count than the last bucket")
	seen[series] = 1
	samples++
}
END {
	if (families < 20 || samples < families) { print "too little: " families " families, " samples " samples"; bad = 1 }
	exit bad
}
