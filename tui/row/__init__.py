"""The page about one row of a table."""
