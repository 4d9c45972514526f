"""Fault injection: injects real faults into sample tenants, and measures which of them the diagnosis
finds."""
