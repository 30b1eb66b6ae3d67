"""`python -m release COMMAND`, which `make generate`, `make deploy` and `make build-installer` run."""

from __future__ import annotations

import sys

from release.cli import main

if __name__ == "__main__":
    sys.exit(main())
