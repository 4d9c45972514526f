"""Writes, reads and queries saved windows and recordings: SQLite files with one window or many.
docs/file-format.md describes the tables."""
