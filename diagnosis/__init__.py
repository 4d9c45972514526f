"""Windows in, causal chains out: pure functions, no I/O. See `diagnosis.engine` and `diagnosis.causes`."""
