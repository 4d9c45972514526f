"""Faults in programs that use public packages unmodified: training loops with PyTorch's DataLoader, jobs of
several ranks, inference servers, pools of workers."""
