# The medians of ../run against the number of tabs. Variables: data, picture.
set terminal svg size 1080,420 font "sans-serif,13" background "#ffffff"
set output picture
set multiplot layout 1,3
set logscale xy
set xrange [7:14000]
set xlabel "tabs"
set key top left
set grid
set style data linespoints
set title "One change saved: time (µs)"
plot data using 1:2 title "thaw" lw 2 pt 7, data using 1:4 title "all anew" lw 2 pt 5
set title "One change saved: bytes"
plot data using 1:3 title "thaw" lw 2 pt 7, data using 1:5 title "all anew" lw 2 pt 5
set title "Start until the first tab (µs)"
plot data using 1:6 title "thaw" lw 2 pt 7, data using 1:7 title "reading all" lw 2 pt 5
unset multiplot
