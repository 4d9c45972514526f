"""The page with the commands for a row or a problem."""
