"""Reads windows from files, and checks everything that is read."""
