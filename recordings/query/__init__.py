"""Answers SQL queries on a file. Views of single calls have a row for each call, though files store sums."""
