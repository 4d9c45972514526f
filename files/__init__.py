"""Writes files that are complete or absent, and reads the small files that stalltop keeps between runs."""
