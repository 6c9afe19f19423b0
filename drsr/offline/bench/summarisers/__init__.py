"""Summarisers for methods that need one, and what they cost in tokens."""
