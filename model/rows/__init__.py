"""Filters and groups the rows of a window."""
