"""SQL over a file: views of single calls that stand for every call made, however large the file is."""
