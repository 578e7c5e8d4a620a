"""The Textual dashboard: it draws ticks and calls the facade, nothing else."""
