"""Names of C++ functions as people write them."""

from __future__ import annotations


def demangled(name: bytes) -> str:
    """``name`` as it stands in the source; as it is, where it is not a mangled name."""
    return name.decode("ascii", "replace")
