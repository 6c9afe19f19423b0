"""The methods that DRSR is compared with, each a rewriter of requests behind one contract, in a file of its own."""
