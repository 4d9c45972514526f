"""Converts windows, chains and comparisons to JSON objects, and writes windows as lines of JSON."""
