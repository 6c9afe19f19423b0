"""Who writes summaries for methods that need one, and what that costs in tokens."""
