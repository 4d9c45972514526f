"""Windows as JSON."""
