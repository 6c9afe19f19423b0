"""Small real trajectories: scripted agents that work with real tools in a temporary folder.

Read `recorder.py` first: it runs one agent on one task. Then:

workspace.py  the temporary folder, and what each tool does in it
shell.py      the shell tool: pipelines of a few programs, output made the same on every machine
website.py    the web tools: a site served on loopback, pages shown as text
tools.py      the tools as the request describes them
agent.py      the agent: a pure function of the request it is shown
visible.py    what the agent sees of a request
voice.py      how the agent words things
words.py      names, numbers and filler documents that a task is made of
noise.py      moves that lead nowhere, for any task
family.py     what a task family is: prepare, plan, check
moves.py      the moves of a script
script.py     reads a family's script: what the user asks, what the agent says and does
code/ office/ security/ web/   the task families: for each a script, and a module that writes the folder
corpus.py     all families together, the committed corpus file
cli.py        `drsr sandbox record`
"""
