"""The rules, as pure functions over data: no clock, no I/O, no environment."""
