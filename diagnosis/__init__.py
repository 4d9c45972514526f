"""Finds out why calls are slow: turns windows into problems, without I/O. The rules are pure functions.

`engine` runs the rules of `host`, `gpu` and `nccl` on each window, and follows over time the causes that they
find. `attribution` follows waits to their root causes; `host` describes these causes.

All these packages use `facts` and `usage` (a window, prepared for rules), `evidence` (what a window shows of
CPUs, interrupts, disks, memory and connections) and `wording` (sentences, figures and commands). `causes`
lists all causes.
"""
