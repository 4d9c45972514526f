"""Finds causes that lie on the host: CPU, disk, memory, locks, network, workers."""
