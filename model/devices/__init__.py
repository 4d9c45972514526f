"""GPUs: their figures and labels, the activity of tenants on them, and their allocations by schedulers."""
