"""Measures what stalltop costs, and in the same run what other tools cost. No measured time, however long,
makes a benchmark fail."""
