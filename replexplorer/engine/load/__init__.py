"""The load's life: its process, the lease of who drives it, figures in the foreground."""
