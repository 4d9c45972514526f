"""Reads through NVML, in a separate process, what the NVIDIA driver reports of its GPUs."""
