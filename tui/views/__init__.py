"""What a table shows of a window: which groups of rows, in which order, compared with which windows."""
