"""Finds out to which tenant a process belongs: a container, pod, job, unit or user. Uses its cgroup and the
state of runtimes."""
