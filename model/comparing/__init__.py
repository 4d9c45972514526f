"""Comparison of two windows: what changed, how sure that is, and whether it meets a condition."""
