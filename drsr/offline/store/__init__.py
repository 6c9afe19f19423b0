"""Storage and shared work: artifacts, locations, exported parts, claims, worker processes, progress.

Nothing here knows what a trajectory or a label is.
"""
