"""The methods that DRSR is compared with, each a rewriter of requests with the same contract, in its own file."""
