"""How it looks: themes as styles, style words, and which layout fits the terminal."""
