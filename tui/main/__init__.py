"""The main screen without its keys: its widgets, what they show, and when they are drawn."""
