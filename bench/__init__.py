"""Measures what stalltop costs, and in the same run what other tools cost. No benchmark fails because of a
time that it measures."""
