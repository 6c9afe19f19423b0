"""The report: tables and figures of the replay, of whole tasks and of the analyses on one page."""
