"""The load as data: what a transaction does, when it begins, what an interval of it was."""
