"""Answers an SQL query on a file: limits it, rewrites it so that it reads stored sums instead of single calls
where the answer is the same, and prints the answer."""
