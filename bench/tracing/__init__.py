"""Measures what tracing costs the programs of a host, traced and untraced ones, and for comparison what the
probes of other tools cost."""
