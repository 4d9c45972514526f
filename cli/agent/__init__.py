"""Tools by which a language model asks about a host (Model Context Protocol)."""
