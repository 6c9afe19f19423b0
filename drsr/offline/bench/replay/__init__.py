"""The replay: every method decides recorded test decisions, and the harm of what it did is measured."""
