"""The terminal: its abilities, its input and output, and how it is restored at the end."""
