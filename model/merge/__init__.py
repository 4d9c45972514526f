"""Windows added up: of one stretch of time after another, and of the last seconds as they pass."""
