"""The page of one row of a table."""
