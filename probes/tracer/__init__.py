"""The tracer: probes on functions, whether tracing works and what it costs, and all of it as one object."""
