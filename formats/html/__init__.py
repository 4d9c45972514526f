"""Windows and recordings as pages for a browser, and pictures of the screen."""
