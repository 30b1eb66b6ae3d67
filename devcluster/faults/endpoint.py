"""The fault endpoint, for tests in any language.

GET    /devcluster/faults              the active faults, each with its hit count
POST   /devcluster/faults              add a `Fault`, as JSON; returns its number
DELETE /devcluster/faults[/NUMBER]     remove one, or all
POST   /devcluster/history/expire      forget the history: watches of older versions get 410
POST   /devcluster/connections/cut     reset every open connection
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from devcluster.errors import StatusError, bad_request, unauthorized
from devcluster.faults.fault import Fault, FaultControl
from devcluster.http_call import ApiRequest, ApiResponse, Handler, User

__all__ = ["with_fault_endpoint"]

PREFIX = "/devcluster/"
_NUMBER = re.compile(r"[0-9]{1,9}\Z")
_ADMINISTRATORS = "system:masters"


def with_fault_endpoint(
    handler: Handler, control: FaultControl, authenticate: Callable[[ApiRequest], User | None]
) -> Handler:
    """Return `handler` with the fault endpoint in front of it, for members of system:masters only.

    `authenticate` returns the request's user, or raises StatusError.
    """

    async def handle(request: ApiRequest) -> ApiResponse:
        if not request.path.startswith(PREFIX):
            return await handler(request)
        try:
            _check_administrator(authenticate(request))
            return _answer(request, control)
        except StatusError as error:
            return ApiResponse.failure(error)

    return handle


def _check_administrator(user: User | None) -> None:
    if user is None:
        raise unauthorized()
    if _ADMINISTRATORS not in user.groups:
        raise StatusError(403, "Forbidden", "only members of system:masters may inject faults")


def _answer(request: ApiRequest, control: FaultControl) -> ApiResponse:
    path = request.path.removeprefix(PREFIX).rstrip("/")
    match request.method, path:
        case "GET", "faults":
            shown = [{"number": number, **fault.to_json()} for number, fault in control.faults.items()]
            return ApiResponse.json({"faults": shown})
        case "POST", "faults":
            return ApiResponse.json({"number": control.put(_fault(request.body))}, status=201)
        case "DELETE", "faults":
            control.clear()
            return ApiResponse.json({})
        case "DELETE", _ if path.startswith("faults/"):
            number = path.removeprefix("faults/")
            fault = control.remove(int(number)) if _NUMBER.match(number) else None
            if fault is None:
                raise StatusError(404, "NotFound", f"fault {number} does not exist")
            return ApiResponse.json(fault.to_json())
        case "POST", "history/expire":
            control.expire_history()
            return ApiResponse.json({})
        case "POST", "connections/cut":
            return ApiResponse.json({"connections": control.cut_connections()})
    raise StatusError(404, "NotFound", f"{request.method} {request.path} does not exist")


def _fault(body: bytes) -> Fault:
    try:
        return msgspec.json.decode(body, type=Fault)
    except (msgspec.DecodeError, ValueError) as error:
        raise bad_request(f"this is not a fault: {error}") from error
