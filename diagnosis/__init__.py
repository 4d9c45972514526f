"""Finds out why calls are slow: pure functions from windows to problems, without I/O. See `diagnosis.engine`
and `diagnosis.causes`."""
