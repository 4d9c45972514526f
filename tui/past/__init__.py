"""Moments before now: steps, jumps, playing."""
