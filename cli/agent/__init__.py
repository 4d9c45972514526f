"""The tools of `stalltop mcp`, which answer a language model's questions about a host."""
