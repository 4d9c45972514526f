"""Textual widgets: each shows one part of a window."""
