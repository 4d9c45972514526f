"""Reads, from maps, what the BPF programs count and store. Processes and cgroups have numeric ids here."""
