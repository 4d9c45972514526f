"""Compares this revision with another one: both are measured in turns, on one machine, in one run."""
