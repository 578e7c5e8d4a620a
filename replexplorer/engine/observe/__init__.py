"""Looking at the stack: pollers and their samples, folded into one tick twice a second."""
