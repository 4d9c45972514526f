"""Past windows, in memory or in a recording, for the screen."""
