"""The proxy's HTTP: what comes in, what goes upstream, and what is refused."""
