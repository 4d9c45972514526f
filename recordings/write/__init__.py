"""Writes windows into files."""
