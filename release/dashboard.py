"""The Grafana dashboard of the manager's and the pet store's metrics."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["ROWS", "Panel", "dashboard_text"]

_JOB = 'job="operator-manager",namespace=~"$namespace"'
_OF = f'{_JOB},controller=~"$controller"'
_STORE = 'job="petstore",namespace=~"$namespace"'

_COLUMNS = 3
_WIDTH = 24 // _COLUMNS
_HEIGHT = 7
_TITLE_HEIGHT = 1


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph: its content, its unit in Grafana's terms, and its queries with their legends."""

    title: str
    description: str
    unit: str
    queries: tuple[tuple[str, str], ...]


def _rate(metric: str, by: str, selector: str = _OF) -> str:
    return f"sum by ({by}) (rate({metric}{{{selector}}}[$__rate_interval]))"


def _quantile(share: float, metric: str, by: str, selector: str = _OF) -> str:
    return f"histogram_quantile({share}, {_rate(f'{metric}_bucket', f'{by}, le', selector)})"


def _quantiles(metric: str, by: str, selector: str = _OF) -> tuple[tuple[str, str], ...]:
    label = f"{{{{{by}}}}}"
    return (
        (_quantile(0.5, metric, by, selector), f"{label} half of them"),
        (_quantile(0.99, metric, by, selector), f"{label} all but 1 %"),
    )


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Is it at work?",
        (
            Panel(
                "Managers",
                "Scraped managers, and leaders among them.",
                "short",
                (
                    (f"sum(up{{{_JOB}}})", "running"),
                    (f"sum by (name) (leader_election_master_status{{{_JOB}}})", "leading {{name}}"),
                ),
            ),
            Panel(
                "Reconciles by result",
                "error is tried again with growing pauses.",
                "ops",
                (
                    (
                        _rate("controller_runtime_reconcile_total", "controller, result"),
                        "{{controller}} {{result}}",
                    ),
                ),
            ),
            Panel(
                "Failures",
                "Errors, terminal errors, bugs of the program, and reconciles that timed out.",
                "ops",
                (
                    (
                        _rate("controller_runtime_reconcile_errors_total", "controller"),
                        "{{controller}} error",
                    ),
                    (
                        _rate("controller_runtime_terminal_reconcile_errors_total", "controller"),
                        "{{controller}} terminal",
                    ),
                    (
                        _rate("controller_runtime_reconcile_panics_total", "controller"),
                        "{{controller}} panic",
                    ),
                    (
                        _rate("controller_runtime_reconcile_timeouts_total", "controller"),
                        "{{controller}} timeout",
                    ),
                ),
            ),
        ),
    ),
    (
        "Controllers",
        (
            Panel(
                "Failing objects",
                "Objects whose latest reconcile failed; normally 0.",
                "short",
                ((f"sum by (controller) (operator_manager_failing_objects{{{_OF}}})", "{{controller}}"),),
            ),
            Panel(
                "Held back",
                "Children that another writer changes too often, and objects whose pods are replaced later.",
                "short",
                (
                    (
                        f"sum by (controller, reason) (operator_manager_unstable_children{{{_OF}}})",
                        "{{controller}} {{reason}}",
                    ),
                    (
                        f"sum by (controller) (operator_manager_rollouts_waiting{{{_OF}}})",
                        "{{controller}} waits to roll out",
                    ),
                ),
            ),
            Panel(
                "Time of a reconcile",
                "Duration of a reconcile.",
                "s",
                _quantiles("controller_runtime_reconcile_time_seconds", "controller"),
            ),
            Panel(
                "From event to reconcile",
                "Time from a watch event to the start of its reconcile.",
                "s",
                _quantiles("operator_manager_event_to_reconcile_seconds", "controller"),
            ),
            Panel(
                "Workers",
                "Running reconciles, and their maximum.",
                "short",
                (
                    (
                        f"sum by (controller) (controller_runtime_active_workers{{{_OF}}})",
                        "{{controller}} running",
                    ),
                    (
                        f"max by (controller) (controller_runtime_max_concurrent_reconciles{{{_OF}}})",
                        "{{controller}} limit",
                    ),
                ),
            ),
            Panel(
                "Queue depth",
                "Objects that wait for a worker.",
                "short",
                (
                    (
                        f"sum by (controller, priority) (workqueue_depth{{{_OF}}})",
                        "{{controller}} priority {{priority}}",
                    ),
                ),
            ),
            Panel(
                "Wait in the queue",
                "Time that an object waits for a worker.",
                "s",
                _quantiles("workqueue_queue_duration_seconds", "controller"),
            ),
            Panel(
                "Additions and retries",
                "Additions to the queue, and retries among them.",
                "ops",
                (
                    (_rate("workqueue_adds_total", "controller"), "{{controller}} added"),
                    (_rate("workqueue_retries_total", "controller"), "{{controller}} retried"),
                ),
            ),
            Panel(
                "Work on one object",
                "Time that a worker needs for an object.",
                "s",
                _quantiles("workqueue_work_duration_seconds", "controller"),
            ),
            Panel(
                "Oldest work in progress",
                "A value that only grows means a stuck worker.",
                "s",
                (
                    (
                        f"max by (controller) (workqueue_longest_running_processor_seconds{{{_OF}}})",
                        "{{controller}} oldest",
                    ),
                    (
                        f"sum by (controller) (workqueue_unfinished_work_seconds{{{_OF}}})",
                        "{{controller}} all together",
                    ),
                ),
            ),
        ),
    ),
    (
        "Replicas that share the work",
        (
            Panel(
                "Shards",
                "Shards that each replica owns, and its desired number.",
                "short",
                (
                    (f"sum by (pod) (leader_election_master_status{{{_JOB}}})", "{{pod}} has"),
                    (f"sum by (pod) (operator_manager_ranges_wanted{{{_JOB}}})", "{{pod}} wants"),
                ),
            ),
            Panel(
                "Handovers",
                "Leases that replicas acquire and release, and the objects of these shards.",
                "ops",
                (
                    (
                        _rate("operator_manager_lease_handovers_total", "direction", _JOB),
                        "leases {{direction}}",
                    ),
                    (
                        _rate("operator_manager_moved_keys_total", "controller, direction"),
                        "{{controller}} {{direction}}",
                    ),
                ),
            ),
            Panel(
                "Without an owner",
                "Time from the release or expiry of a Lease until another replica acquires it.",
                "s",
                _quantiles("operator_manager_lease_unowned_seconds", "pod", _JOB),
            ),
        ),
    ),
    (
        "API server and caches",
        (
            Panel(
                "Requests by code",
                "<error> counts requests without a response.",
                "reqps",
                ((_rate("rest_client_requests_total", "method, code", _JOB), "{{method}} {{code}}"),),
            ),
            Panel(
                "Time of a request",
                "Time from a request to its response.",
                "s",
                _quantiles("rest_client_request_duration_seconds", "verb", _JOB),
            ),
            Panel(
                "Watch restarts",
                "Watches that were reopened.",
                "ops",
                (
                    (
                        _rate("operator_manager_watch_restarts_total", "kind, reason", _JOB),
                        "{{kind}} {{reason}}",
                    ),
                ),
            ),
            Panel(
                "Cached objects",
                "Objects in the cache, by kind.",
                "short",
                ((f"max by (kind) (operator_manager_cache_objects{{{_JOB}}})", "{{kind}}"),),
            ),
            Panel(
                "Cached bytes",
                "Size of the cached JSON, by kind.",
                "bytes",
                ((f"max by (kind) (operator_manager_cache_bytes{{{_JOB}}})", "{{kind}}"),),
            ),
            Panel(
                "Events sent",
                "Kubernetes Events by result.",
                "ops",
                ((_rate("operator_manager_events_total", "result", _JOB), "{{result}}"),),
            ),
        ),
    ),
    (
        "Process",
        (
            Panel(
                "Processor time",
                "CPU usage; a manager uses at most one core.",
                "percentunit",
                ((_rate("process_cpu_seconds_total", "pod", _JOB), "{{pod}}"),),
            ),
            Panel(
                "Memory",
                "Resident memory.",
                "bytes",
                ((f"sum by (pod) (process_resident_memory_bytes{{{_JOB}}})", "{{pod}}"),),
            ),
            Panel(
                "Event loop lag",
                "Delay of all work in the process.",
                "s",
                _quantiles("operator_manager_event_loop_lag_seconds", "pod", _JOB),
            ),
            Panel(
                "Tasks",
                "Running tasks; a constant increase is a leak.",
                "short",
                ((f"sum by (pod) (operator_manager_event_loop_tasks{{{_JOB}}})", "{{pod}}"),),
            ),
        ),
    ),
    (
        "Pet store",
        (
            Panel(
                "Calls by code",
                "Calls of the store by status code.",
                "reqps",
                (
                    (
                        _rate("grpc_server_handled_total", "grpc_method, grpc_code", _STORE),
                        "{{grpc_method}} {{grpc_code}}",
                    ),
                ),
            ),
            Panel(
                "Time of a call",
                "Duration of a call in the store.",
                "s",
                _quantiles("grpc_server_handling_seconds", "grpc_method", _STORE),
            ),
        ),
    ),
)
"""The panels, under the titles of their rows."""


def dashboard_text() -> str:
    """Return the dashboard in Grafana's import format; deterministic."""
    return json.dumps(_dashboard(), indent=2, ensure_ascii=False) + "\n"


def _dashboard() -> dict[str, Any]:
    return {
        "uid": "operator-manager",
        "title": "operator-manager",
        "description": "Generated by `make generate` from release/dashboard.py. Do not edit.",
        "tags": ["kubernetes", "operator"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": list(_panels(ROWS)),
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    for name, metric in (("namespace", "up"), ("controller", "controller_runtime_max_concurrent_reconciles")):
        query = f'label_values({metric}{{job="operator-manager"}}, {name})'
        yield {
            "name": name,
            "type": "query",
            "label": name.capitalize(),
            "datasource": _source(),
            "definition": query,
            "query": {"query": query, "refId": name},
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        }


def _panels(rows: Sequence[tuple[str, Sequence[Panel]]]) -> Iterator[dict[str, Any]]:
    """Yield the rows from top to bottom, and their panels from left to right."""
    numbers = itertools.count(1)
    top = 0
    for title, panels in rows:
        place = {"x": 0, "y": top, "w": 24, "h": _TITLE_HEIGHT}
        yield {
            "id": next(numbers),
            "type": "row",
            "title": title,
            "collapsed": False,
            "gridPos": place,
            "panels": [],
        }
        top += _TITLE_HEIGHT
        for index, panel in enumerate(panels):
            line, column = divmod(index, _COLUMNS)
            place = {"x": column * _WIDTH, "y": top + line * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}
            yield {"id": next(numbers), "gridPos": place, **_graph(panel)}
        top += -(-len(panels) // _COLUMNS) * _HEIGHT


def _graph(panel: Panel) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _source(),
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "expr": expression,
                "legendFormat": legend,
                "datasource": _source(),
            }
            for index, (expression, legend) in enumerate(panel.queries)
        ],
    }


def _source() -> dict[str, str]:
    return {"type": "prometheus", "uid": "${datasource}"}
