"""Fault injection: real faults put upon sample tenants, and what the diagnosis makes of them."""
