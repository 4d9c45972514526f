"""The columns of tables of groups."""
