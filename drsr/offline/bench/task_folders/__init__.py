"""Run benchmarks whose tasks are folders in Harbor's layout, such as WorkBuddyBench, each in its own container."""
