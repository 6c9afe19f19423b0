"""End to end: an agent works on tasks with each method between it and its history, and reward and tokens are measured.

Read `episode.py` first: one agent, one task, one method. Then:

manifest.py the tasks, their suite and domains, and how their means are taken bundled_manifests.py `sandbox`, `eval40`,
and the counts of `full260` supervision.py tasks whose recorded runs something was fitted on are refused suite.py what a
suite and a task's environment are; third-party suites, by entry point sandbox_suite.py the sandbox's tasks as a suite
agent.py what an agent is context_dependent_agent.py the scripted double, which knows only what is in its request
endpoint_agent.py a model behind an OpenAI-compatible endpoint prompt_cache.py the tokens that a provider's prompt cache
would have read and written results_file.py the tokens and rewards of every task, on disk runs.py all tasks with all
methods; existing results are not run again summary.py means, changes against the baseline, intervals task_tables.py the
same as tables, next to the paper's
"""
