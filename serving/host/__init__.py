"""One tracer a host: the process that traces passes its windows to every other stalltop through a Unix socket
(docs/messages.md)."""
