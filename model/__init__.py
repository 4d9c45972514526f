"""The values that flow through stalltop: histograms, rows, tenants, windows and their history."""
