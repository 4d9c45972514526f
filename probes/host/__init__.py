"""Reads what the host does to its processes: CPUs, memory, block I/O, limits, pressure, Linux kernel
events."""
