"""Faults whose victims are sample programs (``demo/native/caller``), which repeat a cycle of calls of
stand-in libraries."""
