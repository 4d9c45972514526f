"""What the programs in the kernel count and keep, read from their maps, with the kernel's own numbers."""
