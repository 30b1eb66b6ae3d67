"""Entry point of `python -m devcluster`."""

from __future__ import annotations

import sys

from devcluster.cli import main

sys.exit(main())
