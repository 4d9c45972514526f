"""Writes files that are complete or not there, and reads what programs keep in them."""
