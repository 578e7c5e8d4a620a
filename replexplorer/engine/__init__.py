"""The asyncio machinery over the ports: session, poller, apply, labs."""
