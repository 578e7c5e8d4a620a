"""replexplorer: explore live MySQL replication settings on real servers."""

__version__ = "0.1.0"
