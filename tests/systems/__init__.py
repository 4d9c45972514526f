"""The whole program in a real system: what scripts/whole-system-test runs in its guest, a line a step.

Each step uses the program as a person does, by its commands, and looks at what it says and at what it leaves.
"""
