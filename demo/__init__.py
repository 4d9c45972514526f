"""Runs sample tenants: stand-in CUDA libraries and programs that call them, in real cgroups."""
