"""Attributes the time that processes lost on the host to root causes.

`attribution` goes through the time that each calling process lost. `following` follows a wait to the thread
that ended it, and on to what delayed that thread. `roots` attributes what a thread lost without waiting for
another thread. `losses` defines the result, from which `diagnosis.host` makes chains.
"""
