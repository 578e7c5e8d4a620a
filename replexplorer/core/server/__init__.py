"""What servers' counters and states mean: protection, replication, a commit's anatomy."""
