"""`python -m drsr` is the `drsr` command."""

import sys

from drsr.cli import main

sys.exit(main())
