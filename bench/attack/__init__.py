"""Attacks a tracer as strangers on its host could, and measures what others lose by that."""
