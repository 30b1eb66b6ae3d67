"""What kubectl prints with the real server, in `recorded/VERSION/SCENE.yaml`, for each version of kubectl.

`python -m tests.conformance.kubectl.recorded [SCENE...]` writes it anew, with the real control plane of
KUBEBUILDER_ASSETS, its kubectl, and the one on the PATH when that is of another version.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.kubectl.programs import programs
from tests.conformance.kubectl.scene import Scene, load_all
from tests.conformance.kubectl.stage import play, version_of
from tests.support.envtest import EnvtestControlPlane, why_not

__all__ = ["load_recorded"]

FOLDER = Path(__file__).parent / "recorded"
AT_ONCE = 3


def load_recorded(version: str, scene: str) -> list[dict[str, Any]] | None:
    """The outputs of a scene; None when there are none for this version of kubectl."""
    path = FOLDER / version / f"{scene}.yaml"
    return yaml.load(path.read_text(), yaml.CSafeLoader) if path.exists() else None


def main(names: list[str]) -> int:
    """Record; returns the exit code."""
    problem = why_not()
    if problem:
        print(f"cannot record: {problem}", file=sys.stderr)
        return 1
    scenes = [each for each in load_all() if not names or each.name in names]
    failed = False
    with tempfile.TemporaryDirectory() as folder, EnvtestControlPlane(Path(folder) / "plane") as plane:

        def record(scene: Scene, program: Path) -> None:
            nonlocal failed
            version = version_of(program)
            try:
                outputs = play(scene, plane, program, Path(folder) / version / scene.name)
            except AssertionError as error:
                print(f"{scene.name} not recorded with kubectl {version}: {error}", file=sys.stderr)
                failed = True
                return
            path = FOLDER / version / f"{scene.name}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(yaml.safe_dump(outputs, sort_keys=False, width=110, allow_unicode=True))
            print(path)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            for program in programs():
                list(pool.map(lambda scene, program=program: record(scene, program), scenes))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
