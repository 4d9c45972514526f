"""Observes this host: traces CUDA and NCCL calls, and reads libraries, containers, GPUs and the host
itself."""
