"""Reads figures of what may slow the processes of the host: CPUs, memory, block I/O, limits, pressure,
network, events of the Linux kernel."""
