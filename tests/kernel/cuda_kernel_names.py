"""Names of the CUDA kernels that the demo's program launches, as the screen shows them."""

from __future__ import annotations

GEMM = "gemm(float const*, float const*, float*, int, int, int)"
ATTENTION = "void nn::attention_forward<128, true>(float*, float const*, nn::Tile<128, true>)"
HISTOGRAM = "(anonymous namespace)::histogram(unsigned char const*, unsigned int*)"
SCALE = "scale(float*, float, int)"
