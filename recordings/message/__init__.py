"""A window as one message: the rows of a file's tables, for sockets (docs/messages.md)."""
