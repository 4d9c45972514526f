"""Makes HTML pages of windows and recordings, and pictures of the screen."""
