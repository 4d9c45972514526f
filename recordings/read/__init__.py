"""Reads windows from files."""
