"""Finds the names of CUDA kernels, from what a program registers or from its symbols, and demangles them."""
