"""What windows of several hosts need: names of hosts, clock offsets, and detection of machines with the same
name."""
