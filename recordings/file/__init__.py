"""The tables of a file, how their values are written, and how a file is opened."""
