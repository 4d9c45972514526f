"""Names of CUDA kernels: what a program registers, or the symbols of its files, as people write them."""
