"""Experiments as data: what a sweep runs, in which order, and what its runs say."""
