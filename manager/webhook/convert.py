"""Answering conversion reviews: a question in, the answer out, both as the bytes of a review."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import orjson

from manager.logs import get_logger
from manager.rate_limit import Lines
from manager.series import Counter
from manager.webhook.bounds import check_object
from manager.webhook.conversion import CONVERSION_PATH, Conversion
from manager.webhook.converter import Converter, NotConverted
from manager.webhook.endpoint import LINES
from manager.webhook.review import ConversionQuestion, read_conversion
from manager.webhook.running import answered, time_limit
from manager.webhook.unanswered import BadReview, FunctionFailed, TooCostly, Unanswered

__all__ = ["ConversionEndpoint"]

_log = get_logger("webhook")

_TURN = 128 * 1024
"""Bytes of objects after which others get their turn: a few milliseconds of work."""

_FIXED = 1024
"""What an object costs besides its length, in the same measure."""

_LONGEST_WAIT = 30.0
"""Seconds that the API server waits for a conversion."""


class ConversionEndpoint:
    """Answers the reviews that ask for objects in another version, of all kinds that can be converted."""

    path = CONVERSION_PATH

    identified = False  # https://github.com/kubernetes/kubernetes/issues/131810

    max_body = 12 * 1024 * 1024
    """Bytes of a review. Lists are converted in one piece, and who reads them decides how long they are. This
    is enough for a page of 500 objects of 24 KB, as kubectl and informers ask for."""

    max_answer = 2 * max_body
    """Bytes of an answer. It is about as long as the review, but numbers like 1e15 are written out."""

    def __init__(self, conversions: Iterable[Conversion], *, panics: Counter) -> None:
        """`panics` counts the times a function fails unexpectedly."""
        self._converter = Converter(conversions)
        self._panics = panics
        self._lines = Lines(per_minute=LINES)

    async def answer(self, body: bytes | bytearray, *, waits: float | None = None) -> bytearray:
        """See `Endpoint`. An object that cannot be converted fails its whole review, and is named in it."""
        question = await read_conversion(body)
        told = {"webhook": self.path, "uid": question.uid, "version": question.desired_api_version}
        limit = time_limit(waits, _LONGEST_WAIT)
        what = f"converting {len(question.objects)} objects"
        try:
            converted = await answered(self._all(question), what=what, uid=question.uid, seconds=limit)
        except NotConverted as error:
            if error.__cause__ is not None:
                self._panics.inc()
            self._tell("not converted", error, **told, **error.told)
            return _ended(_begun(question.uid), {"status": "Failure", "message": str(error)})
        except BadReview:
            raise
        except Unanswered as error:
            if isinstance(error, FunctionFailed):
                self._panics.inc()
            self._tell("not answered", error, **told)
            raise
        _log.debug("converted", objects=len(question.objects), **told)
        return converted

    def _tell(self, event: str, error: Exception, **told: object) -> None:
        self._lines.tell(_log.error, event, error=str(error), exc_info=error.__cause__, **told)

    async def _all(self, question: ConversionQuestion) -> bytearray:
        """The answer, every object in the same order. Raises `NotConverted` for the first that fails."""
        answer = _begun(question.uid)
        since_turn = 0
        for number, raw in enumerate(question.objects):
            size = len(memoryview(raw))
            since_turn += size + _FIXED
            if since_turn > _TURN:
                since_turn = 0
                await asyncio.sleep(0)
            await check_object(memoryview(raw), f"$.request.objects[{number}]")
            if number:
                answer += b","
            answer += await self._converter.convert(raw, question.desired_api_version)
            if len(answer) > self.max_answer:
                raise TooCostly(f"converted, the objects have more than {self.max_answer >> 20} MiB")
        return _ended(answer, {"status": "Success"})


def _begun(uid: str) -> bytearray:
    # Put together from what is JSON already, in one place: to encode some thousand objects once more would
    # take as long again, and to hold them apart as much memory.
    return bytearray(
        b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":%b,%b'
        % (orjson.dumps(uid), b'"convertedObjects":[')
    )


def _ended(answer: bytearray, result: Mapping[str, str]) -> bytearray:
    answer += b'],"result":%b}}' % orjson.dumps(result)
    return answer
