# SPDX-License-Identifier: Apache-2.0
# plot_headroom.gp - headroom over distance, by model, from `longreach headroom --what-if --csv`.
# longreach headroom --what-if --csv >headroom.csv
# gnuplot -e "csv='headroom.csv'; out='headroom.svg'" bench/plot_headroom.gp
# rate (bit/s) and mtu (bytes) choose the rows: 400G and 4200 if not given.
if (!exists("rate")) rate = 400000000000
if (!exists("mtu")) mtu = 4200
set terminal svg size 900,520 dynamic enhanced font 'sans,13' background '#ffffff'
set output out
set datafile separator ","
set title sprintf('Headroom of one lossless priority at %.0fG, MTU %d', rate / 1e9, mtu)
set xlabel 'length of the link, m'
set ylabel 'bytes'
set logscale xy
set format x '10^{%T}'
set format y '10^{%T}'
set key outside right top spacing 1.3
set grid ytics lc rgb '#dddddd'
set border 3
set tics nomirror
colour(i) = word('#1b7f5c #2f6fb3 #b3542f #7a3fb3 #b38f2f #808080 #b32f6f', i)
# Columns 4 to 10 are the models, 11 and 12 the bandwidth-delay product and four of them.
rows = sprintf("< awk -F, 'NR == 1 || ($2 == %.0f && $3 == %d)' %s", rate, mtu, csv)
set key autotitle columnheader
plot for [i = 4:10] rows using 1:i with linespoints lw 2 pt 7 ps 0.5 lc rgb colour(i - 3), \
     rows using 1:12 title '4 x bandwidth x delay' with lines lw 1 dt 2 lc rgb '#000000'
