"""Statistics of latencies and rates: histograms that merge, batches, intervals of confidence."""
