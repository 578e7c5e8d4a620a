"""Epochs: the time from one change to the next, with its figures and one test of the difference."""
