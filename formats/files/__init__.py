"""Files that are complete or not there, and where they go."""
