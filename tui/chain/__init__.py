"""The page about one problem, and the list of all problems."""
