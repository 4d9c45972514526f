"""Fault injection: puts real faults on sample tenants, and measures what the diagnosis finds."""
