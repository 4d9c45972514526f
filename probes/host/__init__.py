"""What the host does to its processes: CPUs, memory, block I/O, limits, pressure, events of the kernel."""
