"""The server of ``stalltop serve``: it authenticates browsers and starts a screen's process for each."""
