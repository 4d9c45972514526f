"""Pages that cover the main screen: the help, and the base classes of all pages."""
