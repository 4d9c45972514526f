"""Figures of all trials together: how many faults were found, how soon, and how small they may be."""
