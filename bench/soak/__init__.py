"""Plays the life of a host fast, beside one recorder, and measures whether that recorder stays as it is."""
