"""Makes the views that SQL queries read, from the tables of a file. Views of single calls have a row for each
call, although files store most calls only as sums."""
