"""The columns of tables: which there are, which a table shows, and how their cells are drawn."""
