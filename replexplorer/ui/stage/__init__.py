"""The dashboard played from a script, with or without a terminal."""
