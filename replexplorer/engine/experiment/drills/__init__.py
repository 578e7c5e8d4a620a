"""Drills: failures on purpose, carried out on a rig and reckoned."""
