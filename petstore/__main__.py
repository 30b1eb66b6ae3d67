"""The entry point of `python -m petstore`."""

from __future__ import annotations

import sys

from petstore.cli import main

sys.exit(main())
