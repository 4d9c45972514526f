"""The terminal: what it can do, what it sends and gets, and how it is left."""
