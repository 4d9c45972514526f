"""The screen's process for a browser (``stalltop serve``)."""
