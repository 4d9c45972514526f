"""Graphs of the past on the main screen: which figures they show, and what their values were."""
