"""The main screen: its widgets, what it draws, and what its keys do."""
