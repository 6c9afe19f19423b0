"""Speed and memory, each as a ratio within one run: `python -m benchmarks.NAME`; results go to docs/benchmarks.md."""
