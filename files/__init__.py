"""Writes files so that they are either complete or absent, and reads the small files that stalltop keeps
between runs."""
