"""What stands between the keys and the session: the knobs being handled, the commands under way."""
