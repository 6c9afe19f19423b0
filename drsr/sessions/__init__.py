"""Runs that grow: one agent's calls with a policy, at the prices of a provider that caches prefixes."""
