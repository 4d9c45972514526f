"""Measures how much tracing slows traced and untraced programs of a host, and for comparison what the probes
of other tools cost."""
