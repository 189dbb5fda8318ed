# SPDX-License-Identifier: Apache-2.0
# plot_demo.gp - goodput over distance, from bench/demo.sh.
# gnuplot -e "results='demo.tsv'; out='demo.svg'; rate=1; losses='0 0.1 1'" plot_demo.gp
set terminal svg size 900,520 dynamic enhanced font 'sans,13' background '#ffffff'
set output out
set datafile separator "\t"
set title 'RDMA WRITE over a long line: goodput at the responder'
set xlabel 'distance, km'
set ylabel 'Gbit/s'
set yrange [0:rate * 1.1]
set key outside right top spacing 1.3
set grid ytics lc rgb '#dddddd'
set border 3
set tics nomirror
# Distances from 0 to thousands: a scale that spreads the short ones.
set nonlinear x via (x + 50) ** 0.4 inverse x ** 2.5 - 50
set xrange [-5:*]
set xtics ('0' 0, '100' 100, '300' 300, '1000' 1000, '3000' 3000)
colour(i) = word('#1b7f5c #2f6fb3 #b3542f #7a3fb3 #808080', i)
chosen(what, loss) = sprintf('< awk -F"\t" ''$1 == "%s" && $3 == "%s"'' %s | sort -k2,2g -t"	"', what, loss, results)
plot rate with lines dt 3 lc rgb '#999999' title 'the line', \
	for [i = 1:words(losses)] chosen('longreach', word(losses, i)) using 2:4 with linespoints lw 2 pt 7 \
		lc rgb colour(i) title sprintf('longreach, %s %% loss', word(losses, i)), \
	for [i = 1:words(losses)] chosen('direct', word(losses, i)) using 2:4 with linespoints lw 2 dt 2 pt 6 \
		lc rgb colour(i) title sprintf('direct, %s %% loss', word(losses, i))
