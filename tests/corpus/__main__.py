"""`make corpus DIR=...`: apply a folder's manifests to devcluster and a real API server, and compare.

`known.yaml` lists known differences with their reasons.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from manager.util.yaml_text import NotYaml, yaml_documents
from tests.conformance.differences import Known, differences
from tests.recordings.asking import Server
from tests.recordings.corpus import examine, is_definition
from tests.support.control_plane import ControlPlane
from tests.support.devcluster_plane import DevclusterControlPlane
from tests.support.envtest import BARE, EnvtestControlPlane, why_not

Json = dict[str, Any]

KNOWN = Path(__file__).with_name("known.yaml")
SUFFIXES = (".yaml", ".yml", ".json")
SHOWN = 3
NUMBER = re.compile(r"\.\d+(?=\.|$)")


def read_folder(folder: Path) -> tuple[dict[str, Json], int]:
    """Return the manifests below a folder as a map from `FILE#NUMBER`, and the number of skipped files.

    A file that is not YAML, such as a template, is skipped.
    """
    found: dict[str, Json] = {}
    unread = 0
    for path in sorted(each for each in folder.rglob("*") if each.suffix in SUFFIXES and each.is_file()):
        try:
            documents = yaml_documents(path.read_text())
        except (NotYaml, UnicodeDecodeError):
            unread += 1
            continue
        for number, document in enumerate(_flat(documents), 1):
            found[f"{path.relative_to(folder)}#{number}"] = document
    return found, unread


def _flat(documents: Iterable[Any]) -> Iterator[Json]:
    for each in documents:
        if not isinstance(each, dict) or not isinstance(each.get("kind"), str) or "apiVersion" not in each:
            continue
        if each["kind"].endswith("List") and isinstance(each.get("items"), list):
            yield from _flat(each["items"])
        elif isinstance(each.get("metadata"), dict) and isinstance(each["metadata"].get("name"), str):
            yield each


def unknown(
    manifests: Mapping[str, Json], real: Json, own: Json, known: Sequence[Known]
) -> tuple[dict[str, list[str]], int]:
    """Return the differences that are not in `known`, by kind and field, and the number of known differences.

    `where` of a known difference is a pattern for `Kind/group`.
    """
    groups: dict[str, list[str]] = {}
    excused = 0
    for name, expected in real.items():
        manifest = manifests[name]
        where = f"{manifest['kind']}/{str(manifest['apiVersion']).rpartition('/')[0]}"
        paths = [each.path for each in known if fnmatch.fnmatchcase(where, each.where)]
        for field, text in differences(expected, own[name]):
            if any(fnmatch.fnmatchcase(field, each) for each in paths):
                excused += 1
            else:
                groups.setdefault(f"{where}: {NUMBER.sub('.N', field)}", []).append(f"{name}: {text}")
    return groups, excused


def main() -> int:
    """Apply the manifests of a folder to both servers and compare the answers; return the exit code."""
    parser = argparse.ArgumentParser(prog="make corpus", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", help="a folder with YAML files: definitions and objects")
    parser.add_argument("--shown", type=int, default=SHOWN, help="differences to print of each kind")
    options = parser.parse_args()
    if problem := why_not():
        print(f"make corpus: {problem}", file=sys.stderr)
        return 2
    if not options.folder or not Path(options.folder).is_dir():
        print(f"make corpus: DIR={options.folder}: there is no such folder", file=sys.stderr)
        return 2
    manifests, unread = read_folder(Path(options.folder))
    kinds = Counter(map(is_definition, manifests.values()))
    print(
        f"make corpus: {kinds[True]} definitions, {kinds[False]} objects; {unread} files are no YAML",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as scratch:
        real, own = _on_both(Path(scratch), manifests)
    known = [Known(**each) for each in yaml.safe_load(KNOWN.read_text())]
    groups, excused = unknown(manifests, real, own, known)
    for group, texts in sorted(groups.items(), key=lambda each: -len(each[1])):
        print(f"{group}: {len(texts)}")
        print("\n".join(f"    {text}" for text in texts[: options.shown]))
    total = sum(map(len, groups.values()))
    others = f"{excused} others have a reason in {KNOWN.name}"
    print(f"make corpus: {total} differences of {len(groups)} kinds; {others}")
    return 1 if groups else 0


def _on_both(scratch: Path, manifests: Mapping[str, Json]) -> tuple[Json, Json]:
    planes: list[ControlPlane] = [
        EnvtestControlPlane(scratch / "real", parts=BARE),
        DevclusterControlPlane(scratch / "devcluster", parts=BARE, persistent=False),
    ]

    def run(plane: ControlPlane) -> Json:
        with plane, Server(plane, scratch / f"server-{id(plane)}") as server:
            return examine(server, manifests)

    with ThreadPoolExecutor(len(planes)) as pool:
        real, own = pool.map(run, planes)
    return real, own


if __name__ == "__main__":
    sys.exit(main())
