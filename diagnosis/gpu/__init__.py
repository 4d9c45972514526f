"""Causes that lie in how the GPU is used, in the devices, and between ranks."""
