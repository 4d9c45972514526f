"""Texts made from the parsers of all commands: shell completion, the manual page, docs/commands.md."""
