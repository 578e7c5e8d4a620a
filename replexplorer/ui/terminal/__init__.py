"""The terminal itself: its output, its end, its characters, the memory of a long session."""
