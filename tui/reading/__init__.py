"""Reads windows in the background, so that the screen never waits for data."""
