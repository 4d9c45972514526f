"""Finds the Python and native frames of traced threads, and the lines of source code in which they are."""
