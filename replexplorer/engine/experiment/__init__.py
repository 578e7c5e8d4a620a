"""Experiments on a stack: sweeps and labs."""
