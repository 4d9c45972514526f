"""The terminal program: command line, screens, keys."""
