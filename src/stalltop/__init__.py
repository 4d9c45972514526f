"""Live terminal monitor of GPU hosts: which tenants are slow, why, who causes it, and what to do.

The sub-packages are symbolic links to the folders at the root of the repository: all code is imported as
``stalltop``, and every file has a short path.
"""
