"""The wire forms of a request: one file per protocol, each with `read_message` and `without_parts`."""
