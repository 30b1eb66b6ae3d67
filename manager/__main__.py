"""`python -m manager`: the command line without operators, for starting a project."""

from __future__ import annotations

import sys

from manager.cli import main
from manager.util.version import VERSION

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], (), name="operator-manager", version=VERSION))
