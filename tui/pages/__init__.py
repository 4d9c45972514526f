"""Pages that cover the main screen: the base classes of all pages, and the help."""
