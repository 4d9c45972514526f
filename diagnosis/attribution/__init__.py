"""Attributes time that processes lost on the host to root causes.

`attribution` walks the time that the calling threads of each process lost. `following` follows a wait to the
thread that ended it, and on to what delayed that thread. `roots` attributes what a thread lost without
waiting for another one. `diagnosis.host` describes the resulting `losses`.
"""
