"""The full-screen program: the app, its screens, tables and keys, and the terminal."""
