"""A cache that keeps what was used lately."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by key. A value that was not used between two turns is dropped at the second one.

    So the cache holds what a few windows use, however many processes and containers have come and gone before
    them, and drops nothing that every window uses.
    """

    def __init__(self, most: int) -> None:
        """A turn also happens when ``most`` values were used since the last one."""
        self._most = most
        self._new: dict[K, V] = {}
        self._old: dict[K, V] = {}
        """Values that were used before the last turn, and some of them also after it."""

    def __len__(self) -> int:
        return len(self._new.keys() | self._old.keys())

    def get(self, key: K) -> V | None:
        """Returns the value of ``key``, which is then in use; None if there is none."""
        found = self._new.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        """Adds a value, which is then in use."""
        if len(self._new) >= self._most:
            self.turn()
        self._new[key] = value

    def turn(self) -> None:
        """Drops what was not used since the last turn."""
        self._old, self._new = self._new, {}

    def clear(self) -> None:
        """Drops everything."""
        self._new.clear()
        self._old.clear()
