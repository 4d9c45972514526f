"""Writes rows as CSV, Parquet and lines of JSON."""
