"""Traces functions: attaches probes, checks that tracing works and what it costs, and reads the results."""
