"""Whose process it is: containers, pods, jobs, units and users, by cgroup and by what runtimes keep."""
