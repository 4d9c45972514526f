"""Judges one kind of evidence each: whether CPUs are idle, interrupts take time, disks are loaded, memory is
short, or connections lose segments. The rooms that find and describe causes share these judgements."""
