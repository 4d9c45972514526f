"""Comparison of two windows: what changed, whether the change is significant, and whether it meets a
condition."""
