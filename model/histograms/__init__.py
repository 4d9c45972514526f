"""HDR histograms: the layout of their counters, many histograms in sparse arrays, and HdrHistogram's V2
encoding."""
