"""The scripts behind `make`: the demo, the full report, and the maps of the code."""
