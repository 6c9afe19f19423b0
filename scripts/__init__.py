"""What `make` calls: the demo, the full report, and the maps of the code."""
