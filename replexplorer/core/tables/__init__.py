"""A server's tables as it describes them, and what of them hurts replication."""
