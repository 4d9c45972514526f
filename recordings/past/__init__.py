"""Provides past windows to the screen, from memory or from a recording."""
