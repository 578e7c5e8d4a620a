"""The edges of the program that a user writes: configuration, themes, keys, JSON shapes."""
