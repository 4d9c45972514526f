"""Every key of the screen: the actions and their keys, the line of keys, other keys that a user chose."""
