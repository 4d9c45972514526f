"""Describes causes that lie on the host: CPU, disk, memory, locks, network, workers.

`waits` reports the losses that `diagnosis.attribution` computes. The modules that it lists describe the
causes of these losses in words, with culprits and fixes. `events` finds causes that are not losses of a wait.
"""
