"""Tests the whole program in a real system: scripts/whole-system-test runs the steps of this package in a
guest.

Each step uses stalltop's commands as a user does, checks their output and that they leave nothing behind, and
prints one line.
"""
