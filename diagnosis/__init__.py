"""Finds out why calls are slow: pure functions from windows to problems, without I/O.

`engine` runs the rules of `host`, `gpu` and `nccl` on each window, and follows over time what they find.
`attribution` follows waits to the causes that `host` describes. These rooms share `facts` and `usage`, which
present a window to rules, `evidence`, which judges it, and `wording`, which writes sentences and commands.
`causes` lists all causes.
"""
