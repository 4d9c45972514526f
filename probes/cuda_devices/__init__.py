"""Finds out which device a CUDA call is for, and which tenant's processes are on which device."""
