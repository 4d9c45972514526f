"""What observes this host: the tracer, libraries, containers, devices and the host itself."""
