"""Values in the words of the screens."""
