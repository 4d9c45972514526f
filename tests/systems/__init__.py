"""Tests the whole program in a real system: scripts/whole-system-test runs these steps in a guest.

Each step uses the program's commands as a user does, checks their output and what they leave behind, and
prints one line.
"""
