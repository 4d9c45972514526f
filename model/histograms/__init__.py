"""HDR histograms: their geometry, many of them at once, and the standard's encoding of one."""
