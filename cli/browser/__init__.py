"""The screen in a web page."""
