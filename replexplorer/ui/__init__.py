"""The Textual dashboard: it draws the ticks of a view and gives commands to its console, nothing else."""
