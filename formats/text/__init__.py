"""Windows as text for a terminal, a mail or a chat."""
