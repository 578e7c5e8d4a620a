"""What talks to the outside: MySQL, Docker, the sidecar's agent, the load's process."""
