"""The programs of ``bpf/`` on their way into the kernel: compiled, kept and loaded, by which system calls."""
