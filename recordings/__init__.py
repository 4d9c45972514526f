"""A window, or a recording of many, in one SQLite file. docs/file-format.md describes every table."""
