"""Gives the screen past windows, from memory or from a recording."""
