"""Writes what the chains of all causes have in common: names of culprits, figures, fixes, and commands of
fixes."""
