"""Security tasks: logs, secrets, checksums, advisories, sessions."""
