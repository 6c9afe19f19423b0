"""The methods that DRSR is compared with, each a rewriter of requests with the same contract, in a file of its own."""
