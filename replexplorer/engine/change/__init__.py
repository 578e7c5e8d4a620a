"""Changing the stack: plans carried out until their effect is seen, or rolled back."""
