"""One flow per stage: tasks, retries and limits around the function that does the work."""
