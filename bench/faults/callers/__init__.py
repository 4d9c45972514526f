"""Faults whose victims are sample programs (``demo/native/caller.c``), which repeat a cycle of calls of stand-in
libraries."""
