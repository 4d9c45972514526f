"""Answers an SQL query on a file. Limits the query. Rewrites it so that it reads stored sums instead of
single calls wherever the answer is the same. Prints the answer."""
