"""Which device a CUDA call is for, and whose processes are on which device."""
