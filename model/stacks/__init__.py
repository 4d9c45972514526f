"""Stacks of calls: values, their sums, and the tree of their callers."""
