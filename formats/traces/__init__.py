"""Writes windows as a trace for Perfetto."""
