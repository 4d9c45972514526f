"""The process that runs the screen of one browser (``stalltop serve``)."""
