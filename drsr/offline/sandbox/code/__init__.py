"""Code tasks: failing tests, crashes, renames, configuration, dependencies."""
