# SPDX-License-Identifier: Apache-2.0
# plot_trace.gp - what rate controllers did over time, from `lrsim --trace trace.csv --rate NAME`.
# gnuplot -e "trace='trace.csv'; out='trace.svg'; run='auto-cubic-1bdp'" bench/plot_trace.gp
# A run of two flows is done twice, the second one first in the second turn: turn=1 shows that one.
if (!exists("turn")) turn = 0
set terminal svg size 1000,900 dynamic font 'sans,12' background '#ffffff'
set output out
set datafile separator ','
set multiplot layout 4, 1 title run
set border 3
set tics nomirror
set grid ytics lc rgb '#dddddd'
set key outside right top
colour(i) = word('#1b7f5c #b3542f', i + 1)
# Of one flow in one turn; time begins again with each turn.
flow(i) = sprintf('< awk -F, ''$1 == "%s" && $2 == %d { if ($4 + 0 < last) turn++; last = $4 + 0; if (turn + 0 == %d) print }'' %s', run, i, turn, trace)
name(i) = system(sprintf('awk -F, ''$1 == "%s" && $2 == %d { print $3; exit }'' %s', run, i, trace))
flows = name(1) eq '' ? 0 : 1
set ylabel 'delivered, Mbit/s'
plot for [i = 0:flows] flow(i) using 4:5 with lines lc rgb colour(i) title name(i)
set ylabel 'round trip, ms'
plot for [i = 0:flows] flow(i) using 4:7 with lines lc rgb colour(i) title name(i)
set ylabel 'in flight, MB'
plot for [i = 0:flows] flow(i) using 4:($8 / 1e6) with lines lc rgb colour(i) title name(i)
set ylabel 'lost, packets'
set xlabel 's'
plot for [i = 0:flows] flow(i) using 4:9 with steps lc rgb colour(i) title name(i)
unset multiplot
