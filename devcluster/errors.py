"""Errors of the API server: a `Status` with the reason, code and message that clients know.

StatusError carries any Status; the functions below build the most common ones.

Validation returns a `FieldError` for each invalid field; `invalid` combines several into one StatusError.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from devcluster.quantity import quoted, show_float


class StatusError(Exception):
    """Error that the server answers with a failure `Status`."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        """Set up the error; None as `details` leaves the Status without details, {} shows empty ones.

        `retry_after` is in seconds; it also becomes the header Retry-After.
        """
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self.metadata: dict[str, Any] = {}
        """The Status's metadata, which may have a token to continue a list."""
        self.empty_details = details == {}
        """Whether the Status has empty `details`, like some of the real server's."""
        self.retry_after = retry_after
        if retry_after is not None:
            self.details["retryAfterSeconds"] = retry_after

    def to_status(self) -> dict[str, Any]:
        """Return the Status object that the client receives."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details or self.empty_details:
            status["details"] = self.details
        status["code"] = self.code
        return status


@dataclasses.dataclass(frozen=True, slots=True)
class FieldError:
    """Validation error of one field.

    `reason` is machine-readable, such as `FieldValueInvalid`; `text` is the message after the field's name.
    """

    reason: str
    field: str
    text: str

    def __str__(self) -> str:
        return f"{self.field}: {self.text}"

    def to_cause(self) -> dict[str, str]:
        """Return the entry for `details.causes` of a Status."""
        return {"reason": self.reason, "message": self.text, "field": self.field}


def field_required(field: str, detail: str = "") -> FieldError:
    """Build the error for a missing field."""
    return FieldError("FieldValueRequired", field, _with("Required value", detail))


def field_invalid(field: str, value: Any, detail: str) -> FieldError:
    """Build the error for an invalid value."""
    return FieldError("FieldValueInvalid", field, _with(f"Invalid value: {_shown(value)}", detail))


def field_type_invalid(field: str, value: Any, detail: str) -> FieldError:
    """Build the error for a value of the wrong type."""
    return FieldError("FieldValueTypeInvalid", field, _with(f"Invalid value: {_shown(value)}", detail))


def field_duplicate(field: str, value: Any) -> FieldError:
    """Build the error for a value that must be unique and occurs twice."""
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {_shown(value)}")


def field_not_found(field: str, value: Any) -> FieldError:
    """Build the error for a reference to an object that does not exist."""
    return FieldError("FieldValueNotFound", field, f"Not found: {_shown(value)}")


def field_forbidden(field: str, detail: str) -> FieldError:
    """Build the error for a field that must not be set or changed."""
    return FieldError("FieldValueForbidden", field, _with("Forbidden", detail))


def field_unsupported(field: str, value: Any, supported: Sequence[str]) -> FieldError:
    """Build the error for a value that is not in the enum `supported`."""
    listed = ", ".join(_shown(each) for each in supported)
    return FieldError(
        "FieldValueNotSupported",
        field,
        _with(f"Unsupported value: {_shown(value)}", f"supported values: {listed}"),
    )


def field_too_long(field: str, maximum: int) -> FieldError:
    """Build the error for a string of more than `maximum` bytes."""
    unit = "byte" if maximum == 1 else "bytes"
    return FieldError("FieldValueTooLong", field, f"Too long: may not be more than {maximum} {unit}")


def field_too_many(field: str, actual: int, maximum: int) -> FieldError:
    """Build the error for a list with more than `maximum` items."""
    unit = "item" if maximum == 1 else "items"
    return FieldError("FieldValueTooMany", field, f"Too many: {actual}: must have at most {maximum} {unit}")


def qualified(group: str, resource: str) -> str:
    """Return the resource's qualified name: `deployments.apps`, or `pods` in the core group."""
    return f"{resource}.{group}" if group else resource


def not_found(group: str, resource: str, name: str) -> StatusError:
    """Build the 404 for an object that does not exist."""
    message = f"{qualified(group, resource)} {quoted(name)} not found"
    return StatusError(404, "NotFound", message, details=_about(group, resource, name))


def already_exists(group: str, resource: str, name: str) -> StatusError:
    """Build the 409 for a create with a name that is in use."""
    message = f"{qualified(group, resource)} {quoted(name)} already exists"
    return StatusError(409, "AlreadyExists", message, details=_about(group, resource, name))


def conflict(group: str, resource: str, name: str, detail: str = "") -> StatusError:
    """Build the 409 for a conflicting write; `detail` defaults to the message for an outdated version."""
    why = detail or (
        "the object has been modified; please apply your changes to the latest version and try again"
    )
    message = f"Operation cannot be fulfilled on {qualified(group, resource)} {quoted(name)}: {why}"
    return StatusError(409, "Conflict", message, details=_about(group, resource, name))


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    """Build the 422 for an object with invalid fields; `kind` is its kind, not its resource."""
    shown = [str(error) for error in dict.fromkeys(errors)]
    listed = shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"
    details = _about(group, kind, name)
    details["causes"] = [error.to_cause() for error in errors]
    message = f"{qualified(group, kind)} {quoted(name)} is invalid: {listed}"
    return StatusError(422, "Invalid", message, details=details)


def bad_request(message: str) -> StatusError:
    """Build the 400 for a malformed request."""
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    """Build the 401 for unknown credentials."""
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, resource: str, name: str, detail: str) -> StatusError:
    """Build the 403 for an action that authorization or admission refuses."""
    about = f"{qualified(group, resource)} {quoted(name)}" if name else qualified(group, resource)
    return StatusError(
        403, "Forbidden", f"{about} is forbidden: {detail}", details=_about(group, resource, name)
    )


def method_not_allowed(group: str, resource: str, verb: str) -> StatusError:
    """Build the 405 for a verb that the resource does not support."""
    return StatusError(
        405,
        "MethodNotAllowed",
        f"{verb} is not supported on resources of kind {json.dumps(qualified(group, resource))}",
        details=_about(group, resource, ""),
    )


def not_acceptable(message: str) -> StatusError:
    """Build the 406 for an Accept header that allows no supported representation."""
    return StatusError(406, "NotAcceptable", message)


def unsupported_media_type(message: str) -> StatusError:
    """Build the 415 for a body in an unsupported format."""
    return StatusError(415, "UnsupportedMediaType", message)


def request_entity_too_large(message: str) -> StatusError:
    """Build the 413 for a body that is too large."""
    return StatusError(413, "RequestEntityTooLarge", message)


def expired(message: str) -> StatusError:
    """Build the 410 for a resourceVersion that is no longer in the history."""
    return StatusError(410, "Expired", message)


def internal_error(message: str) -> StatusError:
    """Build the 500 for an internal failure."""
    return StatusError(
        500,
        "InternalError",
        f"Internal error occurred: {message}",
        details={"causes": [{"message": message}]},
    )


def timed_out(message: str, *, retry_after: int = 0) -> StatusError:
    """Build the 504 for a timeout; the request may still have taken effect.

    `retry_after` is in seconds; 0 means no hint.
    """
    return StatusError(504, "Timeout", f"Timeout: {message}", retry_after=retry_after or None)


def _about(group: str, resource: str, name: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": resource}
    return {key: value for key, value in details.items() if value}


def _with(head: str, detail: str) -> str:
    return f"{head}: {detail}" if detail else head


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return show_float(value)
    if isinstance(value, str):
        return quoted(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
