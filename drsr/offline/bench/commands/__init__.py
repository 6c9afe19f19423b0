"""The commands of a researcher: replay, tasks, report, price report, harm."""
