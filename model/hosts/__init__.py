"""Support for windows of several hosts: names of hosts, clock offsets, detection of machines with the same
name, the collectives that hosts compare; and the process that traces a host."""
