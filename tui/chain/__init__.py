"""The pages about one problem, and about all warnings and the coverage."""
