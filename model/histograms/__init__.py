"""HDR histograms: their geometry, many of them in sparse arrays, and HdrHistogram's V2 encoding."""
