"""Formats of windows: JSON, text, HTML, tables, traces and histogram logs."""
