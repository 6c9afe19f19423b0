"""Sessions: the calls of one growing run with a policy, at the prices of a provider that caches prefixes."""
