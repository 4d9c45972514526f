"""Finds causes in the use of the GPU and in the devices themselves. Each module finds a group of causes;
`causes` lists the modules."""
