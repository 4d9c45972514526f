"""What all screens share: the app as they see it, its options, and their base classes."""
