"""Adds up windows: consecutive windows of one host, windows of several hosts, and the windows of the last
seconds.

This package only adds histograms; `model.rows.pivot` computes percentiles from them.
"""
