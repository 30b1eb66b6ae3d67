"""Query parameters and bodies of requests as options, with the real server's checks."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from devcluster.errors import (
    FieldError,
    bad_request,
    field_forbidden,
    field_invalid,
    field_required,
    field_unsupported,
    invalid,
)
from devcluster.kinds.metadata import field_manager_errors
from devcluster.quantity import parse_integer

Query = Mapping[str, list[str]]

_INT64 = range(-(2**63), 2**63)
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_POLICIES = ("Foreground", "Background", "Orphan", "nil")
_MANAGER_MAXIMUM = 128


@dataclasses.dataclass(slots=True, kw_only=True)
class WriteOptions:
    """The options of a create, an update or a patch."""

    kind: str
    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    field_validation_given: bool = False
    force: bool | None = None

    @classmethod
    def of(cls, query: Query, kind: str, *, apply: bool = False) -> WriteOptions:
        """Read CreateOptions, UpdateOptions or PatchOptions (`kind`) from the query parameters.

        `apply` means a server-side apply, which needs a field manager.

        Raises:
            StatusError: the options are invalid.
        """
        dry_run = query.get("dryRun", [])
        manager = _first(query, "fieldManager")
        validation = _first(query, "fieldValidation")
        force = boolean_of(query, "force") if kind == "PatchOptions" else None
        errors: list[FieldError] = []
        if apply and not manager:
            errors.append(field_required("fieldManager", "is required for apply patch"))
        if force is not None and not apply:
            errors.append(field_forbidden("force", "may not be specified for non-apply patch"))
        if manager:
            errors += field_manager_errors("fieldManager", manager)
        errors += _dry_run_errors(dry_run)
        if validation not in _VALIDATIONS:
            errors.append(field_unsupported("fieldValidation", validation, _VALIDATIONS))
        if errors:
            raise invalid("meta.k8s.io", kind, "", errors)
        return cls(
            kind=kind,
            dry_run=bool(dry_run),
            field_manager=manager,
            field_validation=validation or "Warn",
            field_validation_given=bool(validation),
            force=force,
        )

    def to_object(self, kind: str = "") -> dict[str, Any]:
        """Return the options as an object for admission webhooks."""
        options: dict[str, Any] = {"kind": kind or self.kind, "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            options["dryRun"] = ["All"]
        if self.force is not None and options["kind"] == "PatchOptions":
            options["force"] = self.force
        if self.field_manager:
            options["fieldManager"] = self.field_manager
        if self.field_validation_given:
            options["fieldValidation"] = self.field_validation
        return options


@dataclasses.dataclass(slots=True, kw_only=True)
class DeleteOptions:
    """The options of a delete, from its body or, without a body, from its query parameters."""

    dry_run: bool = False
    grace: int | None = None
    propagation: str | None = None
    orphan: bool | None = None
    uid: str | None = None
    version: str | None = None

    @classmethod
    def of_query(cls, query: Query) -> DeleteOptions:
        """Read the options from the query parameters; raise StatusError if they are invalid."""
        return cls.of(
            {
                "dryRun": query.get("dryRun", []),
                "gracePeriodSeconds": integer_of(query, "gracePeriodSeconds"),
                "propagationPolicy": next(iter(query.get("propagationPolicy", ())), None),
                "orphanDependents": boolean_of(query, "orphanDependents"),
            }
        )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> DeleteOptions:
        """Read the options from a decoded body; raise StatusError, 422, if it is invalid."""
        policy, orphan = options.get("propagationPolicy"), options.get("orphanDependents")
        dry_run = options.get("dryRun") or []
        errors: list[FieldError] = []
        if orphan is not None and policy is not None:
            errors.append(
                field_invalid(
                    "propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set"
                )
            )
        if policy is not None and policy not in _POLICIES[:3]:
            errors.append(field_unsupported("propagationPolicy", policy, _POLICIES))
        errors += _dry_run_errors(dry_run)
        if errors:
            raise invalid("meta.k8s.io", "DeleteOptions", "", errors)
        preconditions = options.get("preconditions") or {}
        grace = options.get("gracePeriodSeconds")
        return cls(
            dry_run=bool(dry_run),
            grace=1 if grace is not None and grace < 0 else grace,
            propagation=policy,
            orphan=orphan,
            uid=preconditions.get("uid"),
            version=preconditions.get("resourceVersion"),
        )

    def to_object(self) -> dict[str, Any]:
        """Return the options as an object for admission webhooks."""
        preconditions = {"uid": self.uid, "resourceVersion": self.version}
        options = {
            "gracePeriodSeconds": self.grace,
            "preconditions": {key: value for key, value in preconditions.items() if value is not None}
            or None,
            "orphanDependents": self.orphan,
            "propagationPolicy": self.propagation,
            "dryRun": ["All"] if self.dry_run else None,
        }
        given = {name: value for name, value in options.items() if value is not None}
        return {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", **given}


@dataclasses.dataclass(slots=True, kw_only=True)
class ListOptions:
    """The options of a list or a watch."""

    label_selector: str = ""
    field_selector: str = ""
    shard_selector: str = ""
    watch: bool = False
    bookmarks: bool = False
    version: str = ""
    match: str = ""
    timeout: int | None = None
    limit: int = 0
    continued: str = ""
    initial_events: bool | None = None

    @classmethod
    def of(cls, query: Query) -> ListOptions:
        """Read the options from the query parameters; raise StatusError if they are invalid."""
        if not query:
            return cls()
        options = cls(
            label_selector=_first(query, "labelSelector"),
            field_selector=_first(query, "fieldSelector"),
            shard_selector=_first(query, "shardSelector"),
            watch=boolean_of(query, "watch") or False,
            bookmarks=boolean_of(query, "allowWatchBookmarks") or False,
            version=_first(query, "resourceVersion"),
            match=_first(query, "resourceVersionMatch"),
            timeout=integer_of(query, "timeoutSeconds"),
            limit=integer_of(query, "limit") or 0,
            continued=_first(query, "continue"),
            initial_events=boolean_of(query, "sendInitialEvents"),
        )
        if errors := options._watch_errors() if options.watch else options._list_errors():
            raise invalid("meta.k8s.io", "ListOptions", "", errors)
        return options

    def _list_errors(self) -> list[FieldError]:
        errors = []
        field = "resourceVersionMatch"
        if self.match:
            if not self.version:
                unless = f"{field} is forbidden unless resourceVersion is provided"
                errors.append(field_forbidden(field, unless))
            if self.continued:
                errors.append(field_forbidden(field, f"{field} is forbidden when continue is provided"))
            if self.match not in {"Exact", "NotOlderThan"}:
                errors.append(field_unsupported(field, self.match, ("Exact", "NotOlderThan", "")))
            if self.match == "Exact" and self.version == "0":
                errors.append(field_forbidden(field, f'{field} "exact" is forbidden for resourceVersion "0"'))
        if self.initial_events is not None:
            errors.append(field_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
        return errors

    def _watch_errors(self) -> list[FieldError]:
        errors = []
        field = "resourceVersionMatch"
        if self.initial_events is not None and self.match != "NotOlderThan":
            requires = f"sendInitialEvents requires setting {field} to NotOlderThan"
            errors.append(field_forbidden(field, requires))
        if self.match:
            if self.initial_events is None:
                unless = f"{field} is forbidden for watch unless sendInitialEvents is provided"
                errors.append(field_forbidden(field, unless))
            if self.match != "NotOlderThan":
                errors.append(field_unsupported(field, self.match, ("NotOlderThan",)))
            if self.continued:
                errors.append(field_forbidden(field, f"{field} is forbidden when continue is provided"))
        return errors


def manager_of(options: WriteOptions, user_agent: str) -> str:
    """Return a write's field manager, from its options or, by default, from its user agent."""
    if options.field_manager:
        return options.field_manager
    program = user_agent.partition("/")[0]
    if program.isascii() and program.isprintable() and len(program) <= _MANAGER_MAXIMUM:
        return program
    kept = ""
    for character in program:
        if not character.isprintable():
            continue
        if len((kept + character).encode()) > _MANAGER_MAXIMUM:
            break
        kept += character
    return kept


def _first(query: Query, name: str) -> str:
    values = query.get(name)
    return values[0] if values else ""


def boolean_of(query: Query, name: str) -> bool | None:
    """Return the value of a boolean parameter, or None if it is missing."""
    values = query.get(name)
    return None if not values else values[0].lower() not in {"false", "0"}


def integer_of(query: Query, name: str) -> int | None:
    """Return an integer parameter, or None if it is missing; raise StatusError, 400, if invalid."""
    values = query.get(name)
    if not values:
        return None
    text = values[0]
    shown = text.replace("\\", "\\\\").replace('"', '\\"')
    if re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII) is None:
        raise bad_request(f'strconv.ParseInt: parsing "{shown}": invalid syntax')
    number = parse_integer(text)
    if number is None or number not in _INT64:
        raise bad_request(f'strconv.ParseInt: parsing "{shown}": value out of range')
    return number


def _dry_run_errors(values: list[str]) -> list[FieldError]:
    if all(value == "All" for value in values):
        return []
    return [field_unsupported("dryRun", values, ("All",))]
