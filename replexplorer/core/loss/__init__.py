"""What became of each row that a client wrote: the loss ledger."""
