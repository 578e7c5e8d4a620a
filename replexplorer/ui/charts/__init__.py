"""What a chart shows and how it is painted, up to the cells of the terminal."""
