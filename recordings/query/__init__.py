"""Answers SQL queries on a file. Views of single calls have a row for each call, although files store most
calls only as sums."""
