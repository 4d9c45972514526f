"""The pages about GPUs."""
