"""The page that shows two rows side by side."""
