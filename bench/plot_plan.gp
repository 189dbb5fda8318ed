# SPDX-License-Identifier: Apache-2.0
# plot_plan.gp - a job over distance, from `longreach plan --csv` (longreach plan --plot FILE.svg does it all).
# gnuplot -e "csv='plan.csv'; out='plan.svg'" bench/plot_plan.gp
set terminal svg size 900,900 dynamic noenhanced font 'sans,13' background '#ffffff'
set output out
set datafile separator ','
set border 3
set tics nomirror
set grid ytics lc rgb '#dddddd'
set key outside right top spacing 1.3
set lmargin 12
set rmargin 34
set logscale x
set xrange [1:20000]
set format x '%.0f'
set multiplot layout 3, 1
set ylabel 'speed that is left, %'
set yrange [0:105]
plot csv every ::1 using 1:(100 * $3) with lines lw 2 lc rgb '#1b7f5c' title 'ring', \
     csv every ::1 using 1:(100 * $4) with lines lw 2 dt 2 lc rgb '#2f6fb3' title 'each site reduces first', \
     csv every ::1 using 1:(100 * $5) with lines lw 2 dt 3 lc rgb '#b3542f' title 'ring, default NCCL_BUFFSIZE'
set autoscale y
set logscale y
# 0: no rate does
positive(x) = x > 0 ? x : NaN
set ylabel 'rate that hides it, Gbit/s'
plot csv every ::1 using 1:(positive($6 / 1e9)) with lines lw 2 lc rgb '#1b7f5c' title 'ring', \
     csv every ::1 using 1:(positive($7 / 1e9)) with lines lw 2 dt 2 lc rgb '#2f6fb3' title 'each site reduces first'
set ylabel 'MB'
set xlabel 'length of the line, km'
plot csv every ::1 using 1:($8 / 1e6) with lines lw 2 lc rgb '#b3542f' title 'outstanding without longreach', \
     csv every ::1 using 1:($9 / 1e6) with lines lw 2 lc rgb '#1b7f5c' title 'buffer of an edge'
unset multiplot
