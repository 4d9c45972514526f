"""Finds the files that hold traced functions, which processes map them, which functions they define, and
where probes are placed."""
