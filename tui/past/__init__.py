"""Moments of the past: steps, jumps, playing."""
