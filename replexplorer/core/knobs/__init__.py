"""The knobs: one catalogue, their names, values and places."""
