"""What a server has and how it is asked: flavours, names, ranges; probed and never guessed."""
