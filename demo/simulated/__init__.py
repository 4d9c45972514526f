"""Generates windows of a host that does not exist. They are shown on hosts on which sample tenants cannot be
traced."""
