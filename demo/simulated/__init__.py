"""Generates windows of a host that does not exist, for hosts on which sample tenants cannot be traced."""
