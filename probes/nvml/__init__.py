"""Reads what the NVIDIA driver reports about its GPUs: through NVML, in a separate process."""
