"""Writes windows as JSON, text, HTML, tables, traces and histogram logs."""
