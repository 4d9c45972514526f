"""Reads what the BPF programs count and keep from their maps, with numeric ids of processes and cgroups."""
