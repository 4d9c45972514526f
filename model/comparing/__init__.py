"""Two windows compared: what changed, and whether that may be."""
