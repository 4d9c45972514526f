"""Keeps the CPU time that probes take in traced processes within a budget."""
