"""Writes, reads and queries SQLite files with windows. A saved window is a file with one window; a recording
has many.

docs/file-format.md describes the tables.
"""
