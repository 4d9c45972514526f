"""Pages on top of the main screen: help, and what all pages share."""
