"""Makes the views that SQL queries read, from the tables of a file. A view of single calls has a row for each
call, although files store most calls only as sums."""
