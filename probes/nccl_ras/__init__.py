"""Reads NCCL's RAS, in which a job says which communicators and ranks it has: for communicators that are
older than the probes."""
