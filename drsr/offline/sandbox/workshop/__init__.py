"""The workshop of tasks: a temporary folder, a shell, a small web site, and the tools that reach them."""
