"""Reads stacks: tells BPF programs where Python frames are, names frames, and adds up samples."""
