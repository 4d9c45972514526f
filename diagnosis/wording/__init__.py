"""Writes what the chains of all rooms say alike: the names of culprits, figures, fixes, and the commands of
fixes."""
