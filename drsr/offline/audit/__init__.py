"""Audits: each a function with a verdict, shown by behaviour and not by reading the code."""
