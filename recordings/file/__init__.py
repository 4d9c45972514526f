"""Describes the tables of a file, converts their values, and opens files."""
