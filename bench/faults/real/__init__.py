"""Faults in programs that use public packages unmodified: loops on PyTorch's loader, servers, pools."""
