"""Evaluation: what pruning is worth, measured on tasks and runs that nothing was fitted on."""
