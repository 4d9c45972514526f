"""Finds causes between the ranks of jobs that use NCCL: stragglers, hangs, many small collectives, a network
that loses segments."""
