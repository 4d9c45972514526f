"""Tells receivers outside of this host about problems: when they begin, get worse, and end."""
