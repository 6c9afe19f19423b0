"""Prefect flows over the stages: schedules, retries, fan-out, limits, summaries. What is computed is in `drsr.offline`.

Nothing phones home: whoever imports this package has the analytics of the tools it stands on switched off, unless the
environment says otherwise.
"""

from __future__ import annotations

import os

QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
    "GX_ANALYTICS_ENABLED": "false",
    "HF_HUB_OFFLINE": "1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
for _name, _value in QUIET.items():
    os.environ.setdefault(_name, _value)
