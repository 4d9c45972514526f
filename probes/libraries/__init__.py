"""Finds the files that hold traced functions: which processes map them, what they define, where probes go."""
