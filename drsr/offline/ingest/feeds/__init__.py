"""Feeds: what comes in from a source night after night, what must stay together in it, and what is missing from it."""
