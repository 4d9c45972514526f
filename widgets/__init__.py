"""Textual widgets. Each one draws one part of a window."""
