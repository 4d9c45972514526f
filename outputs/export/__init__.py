"""Windows as other programs read them: tables, traces, histogram logs, and a report for a browser.

Every exporter takes windows one after the other and keeps no more of them than it has to: a recording of a
week is written as it is read.
"""
