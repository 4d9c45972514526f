"""Finds out which tenant a process belongs to: container, pod, job, unit or user, by cgroup and runtime
state."""
