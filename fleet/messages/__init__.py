"""The wire formats of a fleet: what each kind of message is made of, and what is refused (docs/fleet.md)."""
