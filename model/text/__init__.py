"""Text as every output writes it: figures with units, styles, and names made safe to print."""
