"""Writes files so that each is either complete or absent, and reads the small files that stalltop keeps
between runs."""
