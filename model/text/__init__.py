"""Text for all outputs: figures with units, styles, and names made safe to print."""
