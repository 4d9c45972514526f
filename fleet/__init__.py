"""Many hosts on a NATS server: what each publishes, and who reads it (docs/fleet.md)."""
