"""Measures what the monitor itself costs: how long it takes to start and to answer a key, its CPU time and
memory while it watches a host, and its recordings."""
