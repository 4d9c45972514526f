"""Rows as CSV, Parquet and JSON lines."""
