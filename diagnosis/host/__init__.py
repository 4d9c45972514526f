"""Describes causes that lie on the host: CPU, disk, memory, locks, network, workers.

`waits` reports the losses that `diagnosis.attribution` computes. For each cause of such a loss, one of the
modules that `waits` lists describes it in words, with culprits and fixes. `events` finds host causes that are
not waits.
"""
