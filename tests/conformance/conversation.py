"""Conversations: sequences of requests to an API server, from `tests/recordings/cases/conversations/`.

Each YAML document of a file is a conversation:

    name: its subject, in a few words
    needs: [WORKLOADS]            # features of tests.support.control_plane, if any
    unversioned: true             # object versions are not compared: controllers write at any time
    without_controllers: true     # leave out the controllers' writes to workloads
    without_managers: true        # leave out managedFields: the order of several writers varies
    steps:
    - request: POST /api/v1/namespaces/{ns}/configmaps?dryRun=All
      body: {...}                 # JSON; or `text:` for a literal body
      type: application/yaml      # Content-Type; default: application/json
      accept: application/json    # Accept
      headers: {...}              # further headers
      as: USER                    # a user without rights; default: the administrator
      save: {rv: metadata.resourceVersion}   # for {rv} in later steps
      until: {status.phase: Active}          # repeat until this is true (or `until_status: 404`,
                                             # `until_not: {metadata.resourceVersion: "{rv}"}`,
                                             # or `until_warning: a part of its text`)
      unrecorded: true            # a preparation, which must succeed
    - open: w                     # start a watch
      request: GET /api/v1/namespaces/{ns}/configmaps?watch=true
    - read: w                     # read this number of its events
      events: 2
    - close: w
    - webhook: some-path            # from here on, a webhook at {hooks}/some-path gives this response:
      answer: {response: {allowed: false}, patch: [], delay: 2, status_code: 500, text: no JSON}
                              # or, to convert objects: {rename: {v1: size, v2: count}, carry: {fragile: v2}}
    - asked: some-path              # the reviews that it has received since the last such step
    finally:                      # requests at the end, whose responses are ignored
    - DELETE /apis/.../{id}

The real server acts on earlier writes with a delay. The player repeats a step that changes nothing until the
response equals the recorded one. A write needs an `until` if it could succeed before the server has acted.

`{ns}` is the conversation's own namespace, `{id}` a unique name. The webhooks are at the URL `{hooks}`; the
caBundle `{ca}` trusts them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tests.recordings import files, load_cases


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"user": "as"}):
    """A step: a request with its response, or an action on a watch or a webhook."""

    request: str = ""
    body: Any = None
    text: str | None = None
    type: str = "application/json"
    accept: str = "application/json"
    headers: dict[str, str] = {}
    user: str = ""
    save: dict[str, str] = {}
    until: dict[str, Any] = {}
    until_not: dict[str, Any] = {}
    until_status: int = 0
    until_warning: str = ""
    unrecorded: bool = False
    open: str = ""
    read: str = ""
    close: str = ""
    events: int = 0
    webhook: str = ""
    answer: dict[str, Any] = {}
    asked: str = ""

    @property
    def label(self) -> str:
        """Return the step's label in the recordings; `Conversation.labels` adds a number."""
        return self.request or (f"read {self.read}" if self.read else f"asked {self.asked}")

    @property
    def is_recorded(self) -> bool:
        """Return whether the recordings contain an answer to the step."""
        return not (self.unrecorded or self.close or self.webhook)


class Conversation(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"cleanup": "finally"}
):
    """A sequence of requests to an API server, and other steps, with a name."""

    part: str
    name: str
    steps: tuple[Step, ...]
    needs: tuple[str, ...] = ()
    cleanup: tuple[str, ...] = ()
    without_controllers: bool = False
    without_managers: bool = False
    unversioned: bool = False

    @property
    def id(self) -> str:
        return f"{self.part.rpartition('/')[2]}: {self.name}"

    @property
    def labels(self) -> list[str]:
        """Return the numbered labels of the steps whose answers are recorded."""
        return [f"{number}: {step.label}" for number, step in enumerate(self.steps, 1) if step.is_recorded]


def load_all() -> list[Conversation]:
    return [each for part in files("conversations") for each in load(part)]


def load(part: str) -> list[Conversation]:
    """Load the conversations of a file; a step that is only a text is a request."""
    documents = load_cases(part)
    for each in documents:
        each["part"] = part
        each["steps"] = [{"request": step} if isinstance(step, str) else step for step in each["steps"]]
    found = msgspec.convert(documents, list[Conversation])
    assert len({each.name for each in found}) == len(found), (
        f"{part} has two conversations with the same name"
    )
    return found
