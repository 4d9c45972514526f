"""What the NVIDIA driver says of its GPUs through NVML, asked in a process of its own."""
