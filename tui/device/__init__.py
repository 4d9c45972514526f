"""The pages of the GPUs."""
