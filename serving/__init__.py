"""The screen in a browser: windows are passed on, browsers are let in, each gets a screen of its own."""
