from __future__ import annotations

import orjson
import pytest

from manager.kube import errors
from manager.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Gone,
    Invalid,
    NotFound,
    ServerError,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
    error_from,
    status_error,
)


def status(code: int, reason: str, message: str = "m", **details: object) -> bytes:
    value = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return orjson.dumps(value)


def test_gone_error_of_an_expired_continue_token_contains_the_new_token():
    value = {"kind": "Status", "code": 410, "reason": "Expired", "metadata": {"continue": "token"}}
    for body, token in ((orjson.dumps(value), "token"), (status(410, "Expired"), "")):
        error = error_from(410, {}, body)
        assert isinstance(error, Gone)
        assert error.resume == token


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (418, "Teapot", ApiError),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "ServerTimeout", ServerTimeout),
        (503, "ServiceUnavailable", ServiceUnavailable),
        (504, "Timeout", ServerTimeout),
        (599, "", ServerError),
    ],
)
def test_error_from_response_has_the_class_of_its_status_code(code: int, reason: str, kind: type[ApiError]):
    error = error_from(code, {}, status(code, reason))
    assert type(error) is kind
    assert (error.status, error.reason, error.message, str(error)) == (code, reason, "m", "m")


def test_error_from_response_keeps_the_details_of_the_status():
    error = error_from(422, {}, status(422, "Invalid", causes=[{"field": "spec.size"}]))
    assert error.details["causes"] == [{"field": "spec.size"}]


def test_already_exists_error_is_no_conflict():
    assert not issubclass(AlreadyExists, Conflict)


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (599, b"", "599"),
        (502, b"", "502 Bad Gateway"),
        (502, b"upstream  connect\nerror", "502 Bad Gateway: upstream connect error"),
        (502, b"\xff\xfe", "502 Bad Gateway: \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"),
        (502, b"x" * 5000, "502 Bad Gateway: " + "x" * 300),
    ],
)
def test_error_from_plain_text_response_quotes_up_to_300_characters(status: int, body: bytes, message: str):
    error = error_from(status, {"Content-Type": "text/plain; charset=utf-8"}, body)
    assert isinstance(error, ServerError)
    assert str(error) == message


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, b"hunter2"),
        ({"Content-Type": "text/html"}, b"<html><body>oops</body></html>"),
        ({"Content-Type": "application/json"}, b'{"kind":"Secret","data":{"password":"hunter2"}}'),
        ({"Content-Type": "application/json"}, b'{"kind":"Status","message":"hunter2'),
    ],
)
def test_error_from_response_never_quotes_an_unexpected_response_body(headers: dict[str, str], body: bytes):
    assert str(error_from(502, headers, body)) == "502 Bad Gateway"
    assert str(status_error(body)) == "an error that is no Status"


def test_api_error_without_a_message_names_status_and_reason():
    assert str(ApiError(404, "NotFound")) == "the API server answered 404 NotFound"


def test_retry_after_comes_from_the_header_or_else_from_the_status_details():
    assert error_from(429, {"Retry-After": "3"}, status(429, "", retryAfterSeconds=7)).retry_after == 3
    assert error_from(429, {}, status(429, "", retryAfterSeconds=7)).retry_after == 7


NUMBERS: dict[str, float | None] = {"0": 0, "007": 7, " 3 ": 3, "1.5": 1.5, "-3": 0, "301": 300}
NUMBERS |= {"9" * digits: 300 for digits in (400, 5000)} | {"-" + "9" * 5000: 0}
NUMBERS |= dict.fromkeys(("", " ", "soon", "1.5.1", "1e3", "1_000", "nan", "inf", "3, 5", "3\n"))
NUMBERS |= dict.fromkeys(("\N{ARABIC-INDIC DIGIT THREE}", "Thu, 01 Jan 1970 00:01:00 GMT"))


@pytest.mark.parametrize(("value", "seconds"), NUMBERS.items(), ids=lambda value: str(value)[:9])
def test_retry_after_header_is_cut_to_5_minutes_or_ignored_if_not_decimal(value: str, seconds: float | None):
    assert error_from(429, {"Retry-After": value}, b"").retry_after == seconds


@pytest.mark.parametrize("seconds", ["9" * 400, "1e300", "300.5", "86400"])
def test_retry_after_of_the_status_details_is_limited_to_five_minutes(seconds: str):
    raw = b'{"kind":"Status","code":429,"details":{"retryAfterSeconds":%b}}' % seconds.encode()
    assert error_from(429, {}, raw).retry_after == 300
    assert status_error(raw).retry_after == 300
    raw = raw.replace(b":" + seconds.encode(), b":-" + seconds.encode())
    assert status_error(raw).retry_after == 0
