"""Value types that all other packages share: histograms, rows, tenants, devices, windows and their
history."""
