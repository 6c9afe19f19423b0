"""End to end: an agent works on tasks with each method between it and its history, and reward and tokens are measured.

Read `episode.py` first: one agent, one task, one method.
"""
