"""Hypothesis profiles: fixed examples for `make test`, fresh ones for `make fuzz`, which sets DRSR_FUZZ_EXAMPLES."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, print_blob=True)
# Whoever asks for more examples than usual wants to see new ones; a failure prints how to see it again.
settings.register_profile("fresh", deadline=None, print_blob=True)
settings.load_profile("fresh" if "DRSR_FUZZ_EXAMPLES" in os.environ else "fixed")
