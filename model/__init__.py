"""Value types that all other packages share: windows and their parts, and what is computed from windows.

A window (module `window`) has rows with histograms (`histograms/`), GPUs (`devices/`), and records that other
modules of this folder define. `sharing/`, `rows/`, `hosts/`, `merge/` and `comparing/` compute from windows;
`text/` formats figures.
"""
