"""Writes windows to files: saved windows, recordings and merged files."""
