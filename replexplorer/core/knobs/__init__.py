"""The knobs: one catalogue, their names and values, what turning them takes, what they do to each other."""
