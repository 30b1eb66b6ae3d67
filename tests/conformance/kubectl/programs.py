"""The kubectl programs of this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.conformance.kubectl.stage import version_of
from tests.support.envtest import VARIABLE


def programs() -> list[Path]:
    """Return the kubectl of the assets and one of another version on the PATH; both may be missing."""
    assets = os.environ.get(VARIABLE)
    places = [shutil.which("kubectl", path=assets) if assets else None, shutil.which("kubectl")]
    found = [Path(place) for place in places if place is not None]
    return list({version_of(program): program for program in reversed(found)}.values())[::-1]
