"""The list of problems and warnings on the main screen, and the rows that problems name."""
