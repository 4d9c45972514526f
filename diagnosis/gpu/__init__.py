"""Finds causes that lie in the use of the GPU, in the devices, and between ranks."""
