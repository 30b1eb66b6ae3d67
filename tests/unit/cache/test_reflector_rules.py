from __future__ import annotations

import pytest

from manager.cache.reflector import (
    HistoryDoubted,
    HistoryRestored,
    NotStreaming,
    Pause,
    State,
    WatchClosed,
    WatchTimedOut,
    rule_for,
)
from manager.kube.errors import (
    ApiError,
    BadRequest,
    ConnectionLost,
    DeadlineExceeded,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    MethodNotAllowed,
    NoMatch,
    NotFound,
    ProtocolError,
    ServerError,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)

RESOLVE, STREAM, LIST, WHOLE, WATCH, CHECK = (
    State.RESOLVE,
    State.STREAM,
    State.LIST,
    State.LIST_WHOLE,
    State.WATCH,
    State.CHECK,
)
YES, NO, MAYBE = Pause.YES, Pause.NO, Pause.IF_FRUITLESS


@pytest.mark.parametrize(
    ("failure", "state", "following", "pause"),
    [
        (NoMatch(), RESOLVE, RESOLVE, YES),
        (NotFound(404), STREAM, RESOLVE, YES),
        (Unreachable(), RESOLVE, RESOLVE, YES),
        (Unreachable(), LIST, LIST, YES),
        (ConnectionLost(), STREAM, STREAM, YES),
        (ConnectionLost(), WATCH, CHECK, YES),
        (DeadlineExceeded(), RESOLVE, RESOLVE, YES),
        (DeadlineExceeded(), STREAM, LIST, YES),
        (DeadlineExceeded(), LIST, STREAM, YES),
        (DeadlineExceeded(), WATCH, CHECK, MAYBE),
        (Unauthorized(401), STREAM, STREAM, YES),
        (Forbidden(403), WATCH, WATCH, YES),
        (TooManyRequests(429), WATCH, CHECK, YES),
        (ServiceUnavailable(503), STREAM, STREAM, YES),
        (ServerError(500), RESOLVE, RESOLVE, YES),
        (ServerError(500), STREAM, LIST, YES),
        (ServerError(500), LIST, STREAM, YES),
        (ServerError(500), WATCH, CHECK, YES),
        (Unreachable(), CHECK, CHECK, YES),
        (ServerTimeout(504), CHECK, STREAM, YES),
        (BadRequest(400), STREAM, LIST, NO),
        (Invalid(422), STREAM, LIST, NO),
        (NotStreaming(), STREAM, LIST, NO),
        (BadRequest(400), LIST, STREAM, YES),
        (Gone(410), STREAM, STREAM, MAYBE),
        (Gone(410), LIST, WHOLE, NO),
        (Gone(410), WHOLE, STREAM, MAYBE),
        (Gone(410), WATCH, STREAM, MAYBE),
        (HistoryRestored(), WATCH, STREAM, YES),
        (HistoryDoubted(), CHECK, STREAM, YES),
        (WatchTimedOut(), STREAM, LIST, MAYBE),
        (WatchClosed(), STREAM, LIST, MAYBE),
        (WatchClosed(), WATCH, CHECK, MAYBE),
        (WatchTimedOut(), WATCH, WATCH, MAYBE),
        (ProtocolError(), RESOLVE, RESOLVE, YES),
        (ProtocolError(), STREAM, LIST, YES),
        (ProtocolError(), LIST, STREAM, YES),
        (ProtocolError(), WATCH, STREAM, YES),
        (MethodNotAllowed(405), WATCH, STREAM, YES),
        (ApiError(418), STREAM, LIST, YES),
    ],
)
def test_rule_for_a_failure_gives_next_state_and_pause(
    failure: KubeError, state: State, following: State, pause: Pause
):
    rule = rule_for(state, failure)
    assert (rule.next or state, rule.pause) == (following, pause)


@pytest.mark.parametrize("state", [RESOLVE, STREAM, LIST, WHOLE, WATCH, CHECK])
def test_rule_for_an_unknown_failure_pauses(state: State):
    assert rule_for(state, KubeError()).pause is YES
