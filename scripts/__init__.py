"""The scripts that `make` runs: the demo, the full report, and the maps of the code."""
