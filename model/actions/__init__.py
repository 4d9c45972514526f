"""Commands that change a process or tenant on the host: which there are, which apply, and how to undo them.

stalltop runs none of these commands; it shows them to a person. `catalogue` lists all commands as data,
`placeholders` reads from a window what their placeholders stand for, `cpu_places` chooses CPUs, and `offers`
lists the commands for a row of a table or for a problem.
"""
