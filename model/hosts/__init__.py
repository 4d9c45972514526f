"""Windows of several hosts: their names, their clocks, and which machine a window is of."""
