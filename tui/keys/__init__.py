"""Every key: actions, the line of keys, the keys of pages, and other keys that a user chose."""
