"""A window written or served: JSON, text, saved file."""
