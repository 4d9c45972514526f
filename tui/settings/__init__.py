"""Settings of the screen, their file, and the colours."""
