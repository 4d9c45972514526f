"""Saves and copies what the screen shows."""
