"""Converts windows and comparisons to JSON objects."""
