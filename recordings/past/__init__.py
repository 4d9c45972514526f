"""The windows before now, in memory or in a file, as the screen asks for them."""
