"""Windows as metrics for Prometheus: running totals of all windows, in series whose number is bounded."""
