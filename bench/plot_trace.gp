# SPDX-License-Identifier: Apache-2.0
# plot_trace.gp - sent, delivered and lost data over time: of the paths of a link, from
#     longreach trace LINK --csv >trace.csv          (longreach trace LINK --plot FILE.svg does it all)
# or of two flows on one line, from
#     lrsim --trace trace.csv --rate NAME
#
# gnuplot -e "trace='trace.csv'; out='trace.svg'; run='NAME'" bench/plot_trace.gp
#
# The simulator makes each run with several seeds, whose number ends its name: run='auto-cubic-1g-20ms-1bdp-0'.
set terminal svg size 1000,1100 dynamic font 'sans,12' background '#ffffff'
set output out
set datafile separator ','
set datafile missing '-'
set border 3
set tics nomirror
set grid ytics lc rgb '#dddddd'
set key outside right top
set lmargin 11
set rmargin 26
# A minimum for the range: gnuplot fails on an idle link, whose lines are all 0.
set yrange [0:0.001<*]
colours = '#1b7f5c #b3542f #3b5ba5 #8a6d1d #7d3f8c #2f8fa3 #8c3f4f #555555'
colour(i) = word(colours, (i - 1) % 8 + 1)
# The flows in the order of their appearance, and the values of one flow.
flows = system(sprintf('awk -F, ''$1 == "%s" && !seen[$2]++ { printf "%%s ", $2 }'' "%s"', run, trace))
n = words(flows)
flow(i) = sprintf('< awk -F, ''$1 == "%s" && $2 == "%s" '' "%s"', run, word(flows, i), trace)
control(i) = system(sprintf('awk -F, ''$1 == "%s" && $2 == "%s" { print $3; exit }'' "%s"', run, word(flows, i), trace))
name(i) = word(flows, i) eq '-' ? 'path (rate '.control(i).')' : word(flows, i).' (rate '.control(i).')'
# The daemon's trace has the time of day; the simulator's has not.
wall = int(system(sprintf('head -1 "%s" | tr "," "\n" | grep -nx unix_s | cut -d: -f1', trace).' ; echo 0'))
x = wall > 0 ? wall : 4
if (wall > 0) {
    began = real(system(sprintf('awk -F, ''NR == 2 { print $%d; exit }'' "%s"; echo 0', wall, trace)))
    set multiplot layout 5, 1 title run.strftime(', from %Y-%m-%d %H:%M:%S UTC', began)
    set xtics time format '%H:%M:%.1S'
} else {
    set multiplot layout 5, 1 title run
}
set ylabel 'delivered, Mbit/s'
plot for [i = 1:n] flow(i) using x:5 with lines lc rgb colour(i) title name(i)
set ylabel 'may be sent, Mbit/s'
plot for [i = 1:n] flow(i) using x:6 with lines lc rgb colour(i) title name(i)
set ylabel 'round trip, ms'
plot for [i = 1:n] flow(i) using x:7 with lines lc rgb colour(i) title name(i)
set ylabel 'in flight, MB'
plot for [i = 1:n] flow(i) using x:($8 / 1e6) with lines lc rgb colour(i) title name(i)
set ylabel 'lost so far'
set xlabel (wall > 0 ? 'time of day, UTC' : 's')
# Datagrams that FEC rebuilt in time do not count as lost, and are only in the daemon's trace.
fec = strstrt(system(sprintf('head -1 "%s"', trace)), 'spared_by_fec') > 0 ? n : 0
# Steps take no notice of a range's least.
if (int(system(sprintf('awk -F, ''NR > 1 && $9 + $13 > n { n = $9 + $13 } END { print n + 0 }'' "%s"', trace))) == 0) {
    set yrange [0:1]
}
plot for [i = 1:n] flow(i) using x:9 with steps lc rgb colour(i) title name(i), \
     for [i = 1:fec] flow(i) using x:13 with steps dt 3 lc rgb colour(i) title 'besides: mended by FEC'
unset multiplot
