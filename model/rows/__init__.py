"""The rows of a window, filtered and grouped."""
