"""Live terminal monitor of GPU hosts: who is slow, why, whose fault it is, and what to do.

The sub-packages are links to the folders at the root of the repository, so that there is one name to import
and a short path to every file.
"""
