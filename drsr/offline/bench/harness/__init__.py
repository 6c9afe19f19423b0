"""End to end: an agent works on tasks with each method between it and its history, and reward and tokens are measured.

Read `episode.py` first: one agent, one task, one method. Then:

manifest.py                 which tasks, of which suite and domain, and how their means are taken
bundled_manifests.py        `sandbox`, `eval40`, and the counts of `full260`
supervision.py              tasks whose recorded runs something was fitted on are refused
suite.py                    what a suite and a task's environment are; suites of others, by entry point
sandbox_suite.py            the sandbox's tasks as a suite
agent.py                    what an agent is
context_dependent_agent.py  the scripted double, which knows only what stands in its request
endpoint_agent.py           a model behind an OpenAI-compatible endpoint
prompt_cache.py             which tokens a provider's prompt cache would have read and written
results_file.py             what every task took, on disk
runs.py                     all tasks with all methods; what is there already is not run again
summary.py                  means, changes against the baseline, intervals
task_tables.py              the same as tables, the paper's beside them
"""
