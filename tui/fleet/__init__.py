"""The screen of a fleet: hosts, problems, tenants and jobs of many hosts."""
