"""Checks whether this host can be traced, and what would be missing."""
