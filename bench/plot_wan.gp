# SPDX-License-Identifier: Apache-2.0
# plot_wan.gp - goodput, or the latency of messages, over distance, a panel for each loss; from bench_wan.sh's wan.csv.
# gnuplot -e "csv='wan.csv'; kind='goodput'; line=400; out='wan.svg'" plot_wan.gp     kind: goodput or latency
losses = system(sprintf('awk -F, ''$3 == "%s" && !seen[$2]++ { print $2 }'' %s | sort -g', kind, csv))
systems = system(sprintf('awk -F, ''$3 == "%s" && $5 $9 != "" && !seen[$4]++ { print ($4 == "longreach" ? 0 : 1), $4 }'' %s | sort | cut -d" " -f2', kind, csv))
n = words(losses)
set terminal svg size 1000,(120 + 330 * ((n + 1) / 2)) dynamic enhanced font 'sans,12' background '#ffffff'
set output out
set datafile separator ','
heading = kind eq 'goodput' ? sprintf('goodput on a line of %d Mbit/s', line) : 'a message of 64 KiB: median (thin) and 99.9th percentile (thick)'
set multiplot layout (n + 1) / 2, (n > 1 ? 2 : 1) title heading font 'sans,15' margins 0.08, 0.97, 0.10, 0.86 spacing 0.09, 0.12
set border 3 lc rgb '#666666'
set tics nomirror
set grid ytics lc rgb '#e4e4e4'
# Distances from 0 to thousands: a scale that spreads the short ones.
set nonlinear x via (x + 50) ** 0.4 inverse x ** 2.5 - 50
set xrange [-5:3600]
set xtics ('0' 0, '100' 100, '300' 300, '1000' 1000, '3000' 3000)
set xlabel 'km' offset 0, 0.5
colour(i) = word('#1b7f5c #2f6fb3 #7fb2e5 #b3542f #e5a07f #7a3fb3 #c49be5', i)
width(i) = word(systems, i) eq 'longreach' ? 3 : 1.5
points(i, loss) = sprintf('< awk -F, ''$2 == "%s" && $3 == "%s" && $4 == "%s" && $5 $9 != ""'' %s | sort -t, -k1,1g', loss, kind, word(systems, i), csv)
do for [p = 1:n] {
	loss = word(losses, p)
	set title loss.' % loss' offset 0, -0.6
	if (p == 1) { set key at screen 0.5, 0.945 center top maxrows 1 samplen 2 } else { unset key }
	if (kind eq 'goodput') {
		set ylabel 'Mbit/s'
		set yrange [0:line * 1.08]
		plot line with lines dt 3 lc rgb '#999999' notitle, \
			for [i = 1:words(systems)] points(i, loss) using 1:5 with linespoints lw width(i) pt 7 ps 0.5 lc rgb colour(i) title word(systems, i)
	} else {
		set ylabel 'ms'
		set logscale y
		set yrange [*:*]
		plot for [i = 1:words(systems)] points(i, loss) using 1:($9 / 1e3) with linespoints lw 2.5 pt 7 ps 0.5 lc rgb colour(i) title word(systems, i), \
			for [i = 1:words(systems)] points(i, loss) using 1:($7 / 1e3) with lines lw 1 dt 2 lc rgb colour(i) notitle
	}
}
unset multiplot
