"""The numbers of a catalog's history, collected once, and their two renderings: a page and Prometheus text.

read_numbers(place, now)    nights, sources, quarantine, labels, drift, releases, what waits
write_dashboard(...)        one HTML file that loads nothing
prometheus_text(...)        the same numbers for a scrape
"""

from drsr.offline.dashboard.numbers import Numbers, read_numbers
from drsr.offline.dashboard.page import write_dashboard
from drsr.offline.dashboard.prometheus import prometheus_text

__all__ = ["Numbers", "prometheus_text", "read_numbers", "write_dashboard"]
