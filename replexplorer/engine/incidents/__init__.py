"""What happens by itself: noticed, told, and given back where a restart took it."""
