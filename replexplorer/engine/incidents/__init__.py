"""What happens by itself: noticed, told, and restored where a restart took it."""
