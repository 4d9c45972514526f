"""Compiles, caches and loads the BPF programs of ``bpf/``, and makes the system calls for that."""
