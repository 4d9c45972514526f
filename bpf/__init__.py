"""C sources that run in the kernel, and the headers they are compiled with."""
