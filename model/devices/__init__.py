"""GPUs: their figures, who had work on them, and who shares them."""
