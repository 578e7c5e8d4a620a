"""A server's workload imitated from what it counts of its statements: digests in, a file of SQL out."""
