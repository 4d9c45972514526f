"""Commands that change a process or tenant on the host: which exist, which apply, and how to undo them.
stalltop only shows these commands; it never runs them. `catalogue` lists all commands as data, `placeholders`
reads from a window what their placeholders stand for, `cpu_places` chooses CPUs, and `offers` lists the
commands for a row of a table or for a problem.
"""
