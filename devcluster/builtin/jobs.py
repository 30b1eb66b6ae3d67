"""Defaults, validation and tables of Jobs and CronJobs, and cron schedules in the grammar of robfig/cron."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from devcluster.builtin.base import BuiltinStrategy, Object, child, columns, container_cells, selector_cell
from devcluster.builtin.checks import check_selector, selector_matches
from devcluster.builtin.pod_checks import check_template
from devcluster.builtin.workloads import WorkloadStrategy, check_match, default_template
from devcluster.kinds.ages import human_duration, parse_time
from devcluster.kinds.field import Field
from devcluster.kinds.strategy import Context
from devcluster.schema.cel.values import to_duration
from devcluster.types.table import choices

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES = {name: str(number) for number, name in enumerate(_MONTHS, 1)} | {
    name: str(number) for number, name in enumerate(_WEEKDAYS)
}
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
"""The bounds of minutes, hours, days of the month, months and days of the week."""
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_HORIZON = datetime.timedelta(days=5 * 366)
"""How far ahead the next time is searched: some schedules, such as 30 February, have none."""
_DAY = datetime.timedelta(days=1)


class InvalidSchedule(ValueError):
    """Error for an invalid CronJob schedule, with the message of the Go library robfig/cron."""


@dataclasses.dataclass(frozen=True, slots=True)
class Schedule:
    """Schedule of a CronJob: the times at which it starts a Job."""

    fields: tuple[frozenset[int], ...] = ()
    any_day: bool = False
    """Whether a field of days is `*`; otherwise a day matches if it is in either field."""
    every: datetime.timedelta | None = None
    """The interval of `@every`, counted from the last time."""

    def next_after(self, moment: datetime.datetime, zone: datetime.tzinfo) -> datetime.datetime | None:
        """Return the first time after `moment`, in UTC, or None if the next five years have no such time."""
        if self.every is not None:
            return moment.replace(microsecond=0) + self.every
        day = moment.astimezone(zone).date()
        while day < (moment + _HORIZON).date():
            for found in self._times_of(day, zone):
                if found > moment:
                    return found
            day += _DAY
        return None

    def last_between(
        self, start: datetime.datetime, end: datetime.datetime, zone: datetime.tzinfo
    ) -> datetime.datetime | None:
        """Return the last scheduled time, in UTC, that is after `start` and not after `end`, or None."""
        if self.every is not None:
            count = (end - start) // self.every
            return start.replace(microsecond=0) + count * self.every if count > 0 else None
        day = end.astimezone(zone).date()
        while day >= start.astimezone(zone).date():
            times = [found for found in self._times_of(day, zone) if start < found <= end]
            if times:
                return times[-1]
            day -= _DAY
        return None

    def _times_of(self, day: datetime.date, zone: datetime.tzinfo) -> Iterator[datetime.datetime]:
        minutes, hours, days, months, weekdays = self.fields
        is_day, is_weekday = day.day in days, day.isoweekday() % 7 in weekdays
        if day.month not in months or not (is_day and is_weekday if self.any_day else is_day or is_weekday):
            return
        for hour in sorted(hours):
            for minute in sorted(minutes):
                local = datetime.datetime.combine(day, datetime.time(hour, minute), zone)
                found = local.astimezone(datetime.UTC)
                if found.astimezone(zone).hour == hour:  # otherwise the clocks skip this time
                    yield found


@functools.lru_cache(maxsize=256)
def parse_schedule(text: str) -> Schedule:
    """Parse a schedule such as `*/5 * * * mon-fri` or `@every 90s`; raise InvalidSchedule if invalid."""
    if text.startswith("@"):
        if text.startswith("@every "):
            distance = text.removeprefix("@every ")
            duration = to_duration(distance)
            if duration is None:
                raise InvalidSchedule(f'failed to parse duration {text}: time: invalid duration "{distance}"')
            seconds = max(duration.nanoseconds // 10**9, 1)
            return Schedule(every=datetime.timedelta(seconds=seconds))
        if text not in _DESCRIPTORS:
            raise InvalidSchedule(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    parts = text.split()
    if len(parts) != len(_BOUNDS):
        raise InvalidSchedule(f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]")
    parsed = [_field(part, *bounds) for part, bounds in zip(parts, _BOUNDS, strict=True)]
    return Schedule(tuple(values for values, _ in parsed), any_day=parsed[2][1] or parsed[4][1])


def zone_of(name: str | None) -> datetime.tzinfo:
    """Return the time zone with this name, UTC if it is empty; raise ValueError if it is unknown."""
    try:
        return ZoneInfo(name) if name else datetime.UTC
    except (KeyError, OSError) as error:
        raise ValueError(f"unknown time zone {name}") from error


def _field(text: str, lowest: int, highest: int) -> tuple[frozenset[int], bool]:
    """Return the numbers that a field of a schedule matches, and whether a part is `*` or `?`."""
    numbers: set[int] = set()
    is_star = False
    for part in filter(None, text.split(",")):
        found, star = _range(part, lowest, highest)
        numbers.update(found)
        is_star = is_star or star
    return frozenset(numbers), is_star


def _range(text: str, lowest: int, highest: int) -> tuple[range, bool]:
    span, *steps = text.split("/")
    low, *high = span.split("-")
    is_star = low in {"*", "?"}
    if is_star:
        start, end = lowest, highest
    else:
        start = _number(low)
        end = _number(high[0]) if high else start
        if len(high) > 1:
            raise InvalidSchedule(f"too many hyphens: {text}")
    step = 1
    if steps:
        step = _number(steps[0])
        if len(steps) > 1:
            raise InvalidSchedule(f"too many slashes: {text}")
        if not high and not is_star:
            end = highest
    if start < lowest:
        raise InvalidSchedule(f"beginning of range ({start}) below minimum ({lowest}): {text}")
    if end > highest:
        raise InvalidSchedule(f"end of range ({end}) above maximum ({highest}): {text}")
    if start > end:
        raise InvalidSchedule(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise InvalidSchedule(f"step of range should be a positive number: {text}")
    return range(start, end + 1, step), is_star and step == 1


def _number(text: str) -> int:
    text = _NAMES.get(text.lower(), text)
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII) is None:
        raise InvalidSchedule(
            f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
        )
    if text.startswith("-"):
        raise InvalidSchedule(f"negative number ({text}) not allowed: {text}")
    return int(text)


MODES = ("NonIndexed", "Indexed")
CRON_NAME_MAXIMUM = 52
MANAGED_BY_MAXIMUM = 63
FIXED = (
    "completions",
    "selector",
    "template",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
NUMBERS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
STATES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)
"""Conditions and the states that they give a Job, by priority; "" stands for deletion."""


class JobStrategy(WorkloadStrategy):
    """Strategy of Jobs: the API server's defaults, validation and table columns."""

    orphans_by_default = True
    delete_warning = (
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to "
        "remove them or set propagationPolicy=Orphan to suppress this warning"
    )
    columns = columns("Name | Status | Completions | Duration | Age | Containers* | Images* | Selector*")

    def begin(self, new: Object, context: Context) -> None:
        if not child(new, "spec").get("manualSelector"):
            _generate_selector(new)

    def default(self, obj: Object) -> None:
        super().default(obj)
        default_job(obj)

    def check(self, obj: Field) -> None:
        spec = obj["spec"]
        _check_generated(obj)
        check_job(spec)
        check_selector(spec["selector"])
        if spec["selector"].is_set:
            check_match(spec)
        else:
            spec["selector"].required()

    def check_update(self, obj: Field, old: Field) -> None:
        spec, before = obj["spec"], old["spec"]
        check_job(spec)
        for name in FIXED:
            was = before.get(name)
            if name == "completions" and spec.get("completionMode") == "Indexed":
                if spec.get(name) not in (was, spec.get("parallelism")):
                    spec[name].invalid("can only be modified in tandem with spec.parallelism")
                continue
            if name == "template" and before["suspend"] and not old["status"]["startTime"]:
                was = _rescheduled(was, spec.get(name))
            spec[name].check_unchanged(was)

    def fields(self, obj: Object) -> Mapping[str, str]:
        return {"status.successful": str((obj.get("status") or {}).get("succeeded", 0))}

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        return [
            _state(obj),
            _completions(spec, status),
            self._duration(status),
            *container_cells(spec.get("template")),
            selector_cell(spec.get("selector")),
        ]

    def _duration(self, status: Object) -> str:
        started = parse_time(status["startTime"]) if status.get("startTime") else None
        if started is None:
            return ""
        ended = parse_time(status["completionTime"]) if status.get("completionTime") else None
        return human_duration(((ended or self._clock.now()) - started).total_seconds())


def _rescheduled(old: Object, new: Object) -> Object:
    """Return the old pod template, with new values in the fields that may change before the Job starts."""
    result = {**old, "metadata": {**(old.get("metadata") or {})}, "spec": {**old["spec"]}}
    affinity = {**(old["spec"].get("affinity") or {})}
    _take(affinity, new["spec"].get("affinity") or {}, "nodeAffinity")
    _take(result["metadata"], new.get("metadata") or {}, "labels", "annotations")
    _take(result["spec"], new["spec"], "nodeSelector", "tolerations", "schedulingGates")
    _take(result["spec"], {"affinity": affinity} if affinity or "affinity" in new["spec"] else {}, "affinity")
    return result


def _take(there: Object, new: Object, *names: str) -> None:
    for name in names:
        if name in new:
            there[name] = new[name]
        else:
            there.pop(name, None)


class CronJobStrategy(BuiltinStrategy):
    """Strategy of CronJobs: the API server's defaults, validation and table columns."""

    has_generation = True
    defaults = {
        "spec": {},
        "spec.jobTemplate": {},
        "spec.jobTemplate.spec": {},
        "spec.jobTemplate.metadata": {},
        "spec.suspend": False,
        "spec.successfulJobsHistoryLimit": 3,
        "spec.failedJobsHistoryLimit": 1,
        "status": {},
    }
    nonzero = {"spec.concurrencyPolicy": "Allow"}
    columns = columns(
        "Name | Schedule | Timezone | Suspend? | Active# | Last Schedule | Age "
        "| Containers* | Images* | Selector*"
    )

    def default(self, obj: Object) -> None:
        super().default(obj)
        default_template(obj["spec"]["jobTemplate"]["spec"])

    def check(self, obj: Field) -> None:
        spec, name = obj["spec"], obj["metadata"]["name"]
        _check_schedule(spec["schedule"])
        spec.not_negative("startingDeadlineSeconds")
        spec["concurrencyPolicy"].one_of(choices("batch.v1.CronJobSpec.concurrencyPolicy"))
        check_job(spec["jobTemplate"]["spec"])
        spec.not_negative("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
        if len(name.value or "") > CRON_NAME_MAXIMUM:
            name.invalid(f"must be no more than {CRON_NAME_MAXIMUM} characters")

    def cells(self, obj: Object, spec: Object, status: Object) -> list[Any]:
        job = (spec.get("jobTemplate") or {}).get("spec") or {}
        last = status.get("lastScheduleTime")
        return [
            spec.get("schedule", ""),
            spec.get("timeZone") or "<none>",
            "True" if spec.get("suspend") else "False",
            len(status.get("active") or ()),
            self.since(last) if last else "<none>",
            *container_cells(job.get("template")),
            selector_cell(job.get("selector")),
        ]


def _check_schedule(schedule: Field) -> None:
    if not schedule:
        schedule.required()
    elif "TZ" in schedule.value:
        schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    else:
        try:
            parse_schedule(schedule.value)
        except InvalidSchedule as error:
            schedule.invalid(str(error))


def default_job(obj: Object) -> None:
    """Set the defaults of a Job's spec, except for its template."""
    spec = obj["spec"]
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    if spec.get("backoffLimit") is None:
        spec["backoffLimit"] = 2**31 - 1 if spec.get("backoffLimitPerIndex") is not None else 6
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        # Both places share one dict on purpose: labels that are generated later become the Job's too, as on
        # the real server.
        obj["metadata"]["labels"] = labels
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    replaced = "Failed" if spec.get("podFailurePolicy") is not None else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", replaced)
    spec.setdefault("manualSelector", False)


def check_job(spec: Field) -> None:
    """Check the numeric fields and the pod template of a Job's or a CronJob's spec."""
    spec.not_negative(*NUMBERS)
    mode = spec.at("completionMode", "NonIndexed")
    mode.any_of(MODES)
    if mode.value == "Indexed" and not spec["completions"].is_set:
        spec["completions"].required("when completion mode is Indexed")
    if mode.value == "NonIndexed":
        for name in spec.given("backoffLimitPerIndex", "maxFailedIndexes"):
            spec[name].invalid("requires indexed completion mode")
    if len(spec.get("managedBy") or "") > MANAGED_BY_MAXIMUM:
        spec["managedBy"].too_long(MANAGED_BY_MAXIMUM)
    check_template(spec["template"])
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy.value == "Always":
        policy.required('valid values: "OnFailure", "Never"')
    else:
        policy.any_of(("OnFailure", "Never"))


def _generate_selector(job: Object) -> None:
    template = child(job["spec"], "template")
    labels = child(child(template, "metadata"), "labels")
    for key, value in _own_labels(job).items():
        labels.setdefault(key, value)
    selector = job["spec"]["selector"] = job["spec"].get("selector") or {}
    chosen = child(selector, "matchLabels")
    chosen.setdefault("batch.kubernetes.io/controller-uid", job["metadata"].get("uid", ""))


def _check_generated(job: Field) -> None:
    spec, expected = job["spec"], _own_labels(job.value)
    selector, metadata = spec["selector"], spec["template"]["metadata"]
    if spec["manualSelector"] or not selector.is_set:
        return
    given = metadata.get("labels") or {}
    for key, value in expected.items():
        label = metadata["labels"].key(key, dict(sorted(given.items())))
        if key not in given:
            label.required(f"must be '{value}'")
        elif given[key] != value:
            label.invalid(f"must be '{value}'")
    if not selector_matches(selector.value, expected):
        selector.invalid("`selector` not auto-generated")


def _own_labels(job: Object) -> dict[str, str]:
    """Return the labels that identify a Job's pods, with and without the prefix `batch.kubernetes.io/`."""
    name, uid = job["metadata"].get("name", ""), job["metadata"].get("uid", "")
    return {
        "controller-uid": uid,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
    }


def _state(job: Object) -> str:
    status = job.get("status") or {}
    true = {each.get("type") for each in status.get("conditions") or () if each.get("status") == "True"}
    for condition, state in STATES:
        if condition in true or (not condition and job["metadata"].get("deletionTimestamp")):
            return state
    return "Running"


def _completions(spec: Object, status: Object) -> str:
    succeeded = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
