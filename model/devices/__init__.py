"""GPUs: their figures, the activity of tenants on them, and how they are shared."""
