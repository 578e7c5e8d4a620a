"""A workload file made of what another server's clients do; only `workload capture` imports it (sqlglot)."""
