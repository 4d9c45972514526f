"""Windows of several hosts: names of hosts, clock offsets, and machines with the same name."""
