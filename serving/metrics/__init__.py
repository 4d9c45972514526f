"""The endpoint that Prometheus scrapes."""
