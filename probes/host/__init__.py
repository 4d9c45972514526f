"""Reads figures of the host that slow its processes: CPUs, memory, block I/O, limits, pressure, Linux kernel
events."""
