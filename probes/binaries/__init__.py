"""Reads programs and libraries of other users: their symbols, their code, and whether two files are one."""
