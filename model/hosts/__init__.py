"""Support for windows of several hosts: names of hosts, clock offsets, and detection of machines with the
same name."""
