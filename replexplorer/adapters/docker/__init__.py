"""Containers of one Docker host: a provider of nodes."""
