"""What turning knobs takes, step by step with its undo, and what is questionable about what was asked."""
