"""Servers that somebody else made: watched, and changed only so that every change can be undone."""
