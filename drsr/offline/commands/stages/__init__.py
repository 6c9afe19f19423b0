"""The commands of the eight stages, one file each."""
