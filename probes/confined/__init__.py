"""Examines files and memory of other users in a confined process, which can be given up if it hangs."""
