"""Windows as a trace for Perfetto."""
