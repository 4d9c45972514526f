"""One module per sub-command: each adds its own options and runs."""
