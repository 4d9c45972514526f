"""Formats windows as text for a terminal, a mail or a chat."""
