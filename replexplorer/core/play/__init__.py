"""Plays: scripts of keys, waits, captions and marks for the dashboard, read and checked as a whole."""
