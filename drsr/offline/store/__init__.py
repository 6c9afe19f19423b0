"""Bytes and who works on them: artifacts, locations, exported parts, claims, worker processes, progress.

Nothing here knows what a trajectory or a label is.
"""
