"""Requests to a real API server and its recorded answers, with which tests compare devcluster.

People write `cases/PART.yaml`. Only `make record` writes `answers/PART.json`, which has one masked answer for
each case, by its name. `answers/versions.json` has the versions of Kubernetes and kubectl.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

from manager.util.yaml_text import yaml_documents

CASES = Path(__file__).parent / "cases"
ANSWERS = Path(__file__).parent / "answers"
NOTE = "by `make record`, from a real control plane: change the cases, not this"
WIDTH = 110
STEP = re.compile(r"\d+: ")
"""Label of a step in a conversation."""


def files(folder: str) -> list[str]:
    """Return the names of the parts, such as `kubectl/pods`, whose case files are in a folder."""
    return [f"{folder}/{path.stem}" for path in sorted((CASES / folder).glob("*.yaml"))]


@functools.cache
def _as_json(part: str) -> str:
    return json.dumps(yaml_documents((CASES / f"{part}.yaml").read_text()))


def load_cases(part: str) -> list[Any]:
    """Return copies of the YAML documents in a case file."""
    return json.loads(_as_json(part))


class Answers(dict[str, Any]):
    """Answers by the names of their cases; a missing answer raises LookupError."""

    part = ""

    def __missing__(self, name: str) -> Any:
        raise LookupError(
            f"{self.part}: there is no answer to {name!r} yet: make record ARGS=--only={self.part}"
        )


def load_answers(part: str) -> Answers:
    """Return the recorded answers of a part (a file of cases); they are empty before the first recording."""
    path = ANSWERS / f"{part}.json"
    answers = Answers(json.loads(path.read_text())["answers"] if path.exists() else {})
    answers.part = part
    return answers


def write_answers(part: str, answers: dict[str, Any]) -> None:
    """Write one answer in each line; break long lines between the items of lists."""
    path = ANSWERS / f"{part}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f'{{\n"recorded": {json.dumps(NOTE)},\n"answers": '
    path.write_text(f"{head}{_laid_out(answers)}\n}}\n")


def versions() -> dict[str, Any]:
    """Return the recorded versions of `kubernetes` and `kubectl`."""
    return load_answers("versions")


def kubectl_versions() -> tuple[str, ...]:
    """Return the recorded kubectl versions; the first is the version of the real control plane."""
    return tuple(versions()["kubectl"])


def _laid_out(answers: dict[str, Any]) -> str:
    return (
        "{\n" + ",\n".join(f"{_json(name)}: {_answer(name, each)}" for name, each in answers.items()) + "\n}"
    )


def _answer(name: str, answer: Any) -> str:
    text = _json(answer)
    if len(name) + len(text) <= WIDTH or not isinstance(answer, dict):
        return text
    if all(STEP.match(key) for key in answer):
        return _laid_out(answer)
    return "{" + ", ".join(f"{_json(key)}: {_entry(each)}" for key, each in answer.items()) + "}"


def _entry(value: Any) -> str:
    text = _json(value)
    if len(text) <= WIDTH or not isinstance(value, list) or len(value) == 1:
        return text
    return "[\n" + ",\n".join(_json(each) for each in value) + "\n]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
