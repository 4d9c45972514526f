"""Injects faults into one of several traced hosts that run one job together, and measures how soon and how
rightly the fleet names the late rank and what holds it up on its host."""
