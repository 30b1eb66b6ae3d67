"""The real server's answers, kept in `recorded/`, one file for each file of conversations.

`python -m tests.conformance.recorded [FILE...]` writes them anew, from the real control plane of
KUBEBUILDER_ASSETS.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.conformance.conversation import load_all
from tests.conformance.player import play
from tests.support.envtest import EnvtestControlPlane, why_not

__all__ = ["load_recorded"]

FOLDER = Path(__file__).parent / "recorded"


def load_recorded(file: str) -> dict[str, Any]:
    """The answers to the conversations of a file, by their names."""
    path = FOLDER / f"{file}.json"
    loaded: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return loaded


def main(files: list[str]) -> int:
    """Record; returns the exit code."""
    problem = why_not()
    if problem:
        print(f"cannot record: {problem}", file=sys.stderr)
        return 1
    conversations = [each for each in load_all() if not files or each.file in files]
    with tempfile.TemporaryDirectory() as folder, EnvtestControlPlane(Path(folder)) as plane:
        answers: dict[str, dict[str, list[Any]]] = {}
        failed = False
        for conversation in conversations:
            print(conversation.id)
            try:
                played = play(conversation, plane)
            except AssertionError as error:
                print(f"  not recorded: {error}", file=sys.stderr)
                failed = True
                continue
            answers.setdefault(conversation.file, {})[conversation.name] = played
    FOLDER.mkdir(exist_ok=True)
    for file, recorded in answers.items():
        (FOLDER / f"{file}.json").write_text(_laid_out(recorded))
    return 1 if failed else 0


def _laid_out(recorded: dict[str, list[Any]]) -> str:
    """JSON with one answer to a line, so that a change of one is a change of one line."""
    parts = []
    for name, answers in sorted(recorded.items()):
        lines = [json.dumps(each, ensure_ascii=False, sort_keys=True) for each in answers]
        parts.append("\n".join([f"{json.dumps(name)}: [", ",\n".join(lines), "]"]))
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
