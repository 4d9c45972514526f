"""Text for all outputs: formats figures with units, styles text, and makes names safe to print."""
