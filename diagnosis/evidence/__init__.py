"""Judges the evidence of a window, one kind in each module: whether CPUs are idle, interrupts take time,
disks are loaded, memory is short, or connections lose segments.

The packages that find and describe causes (`attribution`, `host`, `gpu`, `nccl`) share these judgements.
"""
