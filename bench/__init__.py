"""Measures what stalltop costs, side by side with others in one run. Nothing here asserts a time."""
