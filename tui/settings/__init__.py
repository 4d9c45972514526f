"""The settings of the screen, their file, and the themes."""
