"""Measures what stalltop costs, side by side with other tools in one run. No benchmark asserts a time."""
