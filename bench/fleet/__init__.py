"""Measures a fleet of simulated hosts on one NATS server."""
