"""Jobs, CronJobs, and their schedules in the grammar of the real controller's library (robfig/cron)."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from devcluster.builtin.base import BuiltinStrategy, Object, child, columns, container_cells, selector_cell
from devcluster.builtin.checks import immutable, label_selector, non_negative, one_of, selector_matches
from devcluster.builtin.pod_checks import pod_template
from devcluster.builtin.workloads import WorkloadStrategy, default_template, mismatch
from devcluster.errors import FieldError, field_invalid, field_required, field_too_long, field_unsupported
from devcluster.kinds.ages import human_duration, parse_time
from devcluster.kinds.strategy import Context
from devcluster.schema.cel.values import to_duration
from devcluster.types.table import choices

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES = {name: str(number) for number, name in enumerate(_MONTHS, 1)} | {
    name: str(number) for number, name in enumerate(_WEEKDAYS)
}
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
"""Of minutes, hours, days of the month, months and days of the week."""
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
"""How far ahead the next time is looked for: 30 February never comes."""
_DAY = datetime.timedelta(days=1)


class InvalidSchedule(ValueError):
    """Not a schedule; the text is the library's."""


@dataclasses.dataclass(frozen=True, slots=True)
class Schedule:
    """Times at which a CronJob starts a Job."""

    fields: tuple[frozenset[int], ...] = ()
    any_day: bool = False
    """Whether one of the two fields of days is `*`; otherwise a day of either is one."""
    every: datetime.timedelta | None = None
    """The distance of `@every`, from the last time."""

    def next_after(self, moment: datetime.datetime, zone: datetime.tzinfo) -> datetime.datetime | None:
        """Return the first time after `moment`, in UTC; None if there is none for five years."""
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
        """Return the last time after `start` that is not after `end`, in UTC, or None."""
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
                if found.astimezone(zone).hour == hour:  # else the clocks leave this time out
                    yield found


@functools.lru_cache(maxsize=256)
def parse_schedule(text: str) -> Schedule:
    """Parse `*/5 * * * mon-fri`, `@daily` or `@every 90s`.

    Raises:
        InvalidSchedule: the text is no schedule.
    """
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
    """Return the time zone of that name, UTC without one.

    Raises:
        ValueError: the machine knows no such zone.
    """
    try:
        return ZoneInfo(name) if name else datetime.UTC
    except (KeyError, OSError) as error:
        raise ValueError(f"unknown time zone {name}") from error


def _field(text: str, lowest: int, highest: int) -> tuple[frozenset[int], bool]:
    """Return the numbers of a field, and whether it is `*`."""
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
POLICIES = choices("batch.v1.CronJobSpec.concurrencyPolicy")
CRON_NAME_MAXIMUM = 52
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
    """The rules of jobs."""

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

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        spec = new["spec"]
        wrong = _generated(new)
        wrong += job_spec(spec, "spec")
        if spec.get("selector") is None:
            wrong.append(field_required("spec.selector"))
        else:
            wrong += label_selector(spec["selector"], "spec.selector")
            wrong += mismatch(spec["selector"], spec["template"])
        return wrong

    def validate_update(self, new: Object, old: Object, context: Context) -> list[FieldError]:
        spec, before = new["spec"], old["spec"]
        wrong = job_spec(spec, "spec")
        fixed = ("completions", "selector", "template", "completionMode", "podFailurePolicy")
        for name in (*fixed, "backoffLimitPerIndex", "managedBy", "successPolicy"):
            if name == "completions" and spec.get("completionMode") == "Indexed":
                if spec.get(name) != before.get(name) and spec.get(name) != spec.get("parallelism"):
                    text = "can only be modified in tandem with spec.parallelism"
                    wrong.append(field_invalid("spec.completions", spec.get(name), text))
                continue
            was = before.get(name)
            if (
                name == "template"
                and before.get("suspend")
                and not (old.get("status") or {}).get("startTime")
            ):
                was = _rescheduled(was, spec[name])
            wrong += immutable(spec.get(name), was, f"spec.{name}")
        return wrong

    def fields(self, obj: Object) -> Mapping[str, str]:
        return {"status.successful": str((obj.get("status") or {}).get("succeeded", 0))}

    def cells(self, obj: Object) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
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
    """Return a template with the fields of another one that a suspended, unstarted Job may change."""
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
    """The rules of CronJobs."""

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

    def validate_create(self, new: Object, context: Context) -> list[FieldError]:
        spec, wrong = new["spec"], []
        wrong += _schedule_errors(spec.get("schedule", ""), "spec.schedule")
        wrong += non_negative(spec, "spec", "startingDeadlineSeconds")
        wrong += one_of(spec["concurrencyPolicy"], "spec.concurrencyPolicy", POLICIES)
        wrong += job_spec(spec["jobTemplate"]["spec"], "spec.jobTemplate.spec")
        wrong += non_negative(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
        if len(new["metadata"].get("name", "")) > CRON_NAME_MAXIMUM:
            text = f"must be no more than {CRON_NAME_MAXIMUM} characters"
            wrong.append(field_invalid("metadata.name", new["metadata"]["name"], text))
        return wrong

    def cells(self, obj: Object) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
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


def _schedule_errors(schedule: str, path: str) -> list[FieldError]:
    if not schedule:
        return [field_required(path)]
    if "TZ" in schedule:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        return [field_invalid(path, schedule, text)]
    try:
        parse_schedule(schedule)
    except InvalidSchedule as error:
        return [field_invalid(path, schedule, str(error))]
    return []


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


def job_spec(spec: Object, path: str) -> list[FieldError]:
    """Check the numbers and the template of a Job's or a CronJob's spec."""
    wrong = non_negative(spec, path, *NUMBERS)
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in MODES:
        wrong.append(field_unsupported(f"{path}.completionMode", mode, MODES))
    if mode == "Indexed" and spec.get("completions") is None:
        wrong.append(field_required(f"{path}.completions", "when completion mode is Indexed"))
    if mode == "NonIndexed":
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                wrong.append(field_invalid(f"{path}.{name}", spec[name], "requires indexed completion mode"))
    if len(spec.get("managedBy") or "") > MANAGED_BY_MAXIMUM:
        wrong.append(field_too_long(f"{path}.managedBy", MANAGED_BY_MAXIMUM))
    wrong += pod_template(spec["template"], f"{path}.template")
    here, policy = f"{path}.template.spec.restartPolicy", spec["template"]["spec"].get("restartPolicy")
    if policy == "Always":
        wrong.append(field_required(here, 'valid values: "OnFailure", "Never"'))
    elif policy not in {"OnFailure", "Never"}:
        wrong.append(field_unsupported(here, policy, ("OnFailure", "Never")))
    return wrong


MANAGED_BY_MAXIMUM = 63


def _generate_selector(job: Object) -> None:
    template = child(job["spec"], "template")
    labels = child(child(template, "metadata"), "labels")
    for key, value in _own_labels(job).items():
        labels.setdefault(key, value)
    selector = job["spec"]["selector"] = job["spec"].get("selector") or {}
    chosen = child(selector, "matchLabels")
    chosen.setdefault("batch.kubernetes.io/controller-uid", job["metadata"].get("uid", ""))


def _generated(job: Object) -> list[FieldError]:
    selector = job["spec"].get("selector")
    if job["spec"].get("manualSelector") or selector is None:
        return []
    wrong: list[FieldError] = []
    expected = _own_labels(job)
    labels = (job["spec"]["template"].get("metadata") or {}).get("labels") or {}
    for key, value in expected.items():
        path, text = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
        if key not in labels:
            wrong.append(field_required(path, text))
        elif labels[key] != value:
            wrong.append(field_invalid(path, dict(sorted(labels.items())), text))
    if not selector_matches(selector, expected):
        wrong.append(field_invalid("spec.selector", selector, "`selector` not auto-generated"))
    return wrong


def _own_labels(job: Object) -> dict[str, str]:
    """Return the labels that identify a Job's pods, in an old and a new form."""
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
