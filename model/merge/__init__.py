"""Adds up windows: consecutive ones, those of several hosts, and a sliding range of the last seconds.

Histograms are only added here; `model.rows.pivot` computes percentiles.
"""
