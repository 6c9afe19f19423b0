"""What a researcher runs: every method on recorded decisions and on whole tasks, analyses, and the report.

No stage imports it.
"""
