"""Writes rows as CSV and Parquet, and collects the rows of a window as tables."""
