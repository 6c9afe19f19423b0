"""Experiments for researchers: every method on recorded decisions and whole tasks, analyses, and the report.

No stage imports it.
"""
