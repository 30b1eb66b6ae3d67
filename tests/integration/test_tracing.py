"""OTLP traces of a real manager; one trace has spans of the manager and the API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.conftest import RunManager, StartControlPlane
from tests.support.api_objects import create_namespace, new_namespace
from tests.support.control_plane import ControlPlane
from tests.support.control_plane_kinds import ControlPlaneKind
from tests.support.eventually import eventually
from tests.support.foos import foo, foo_path
from tests.support.otlp import Receiver
from tests.support.pets import pet, pet_path
from tests.support.ports import PortBlock

NO_STORE = "127.0.0.1:9"
SERVER, MANAGER = "apiserver", "operator-manager"
ERROR = 2


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiving:
        yield receiving


@pytest.fixture
def ports() -> Iterator[PortBlock]:
    with PortBlock(1) as reserved:
        yield reserved


@pytest.mark.contract
def test_trace_connects_reconcile_api_server_and_webhook_spans(
    receiver: Receiver,
    control_plane_kind: ControlPlaneKind,
    own_control_plane: StartControlPlane,
    run_manager: RunManager,
    tmp_path: Path,
    ports: PortBlock,
):
    config = tmp_path / "tracing.yaml"
    config.write_text(
        "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\n"
        f"endpoint: 127.0.0.1:{receiver.grpc_port}\nsamplingRatePerMillion: 0\n"
    )
    traces = control_plane_kind.name != "devcluster"
    flags = (f"--tracing-config-file={config}",) if traces else ()
    plane = own_control_plane(parts=("etcd", "apiserver"), apiserver_flags=flags, crds=True)
    create_namespace(plane, "traced")
    manager = run_manager(
        plane.kubeconfig,
        "--controllers=pet",
        f"--petstore-address={NO_STORE}",
        f"--webhook-bind-address=127.0.0.1:{ports[0]}",
        environ={"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "200"},
    ).wait_ready()

    def is_asked_for_reviews() -> None:
        """Assert that the API server calls the webhook; the calls begin some time after the registration."""
        plane.api.create(f"{pet_path('traced')}?dryRun=All", pet("tried"))
        reviews = manager.metrics().select("controller_runtime_webhook_requests_total", code="200")
        assert any(each.value for each in reviews if each.labels["webhook"].startswith("/mutate"))

    if traces:
        eventually(is_asked_for_reviews)
    plane.api.create(pet_path("traced"), pet("rex"))

    def has_both_sides() -> dict[str, tuple[str, Span]]:
        trace = receiver.trace_of("reconcile pet", **{"k8s.object.name": "rex"})
        found = {span.name: (service, span) for service, span in trace}
        assert {"reconcile pet", "queue wait", "patch pets"} <= set(found)
        [call] = [span for name, (_, span) in found.items() if name.startswith("petstore.PetStore/")]
        assert call.status.code == ERROR
        if traces:
            assert SERVER in {service for service, _ in trace}
            assert any(name.startswith("review /mutate") for name in found), sorted(found)
        return found

    found = eventually(has_both_sides)
    root = found["reconcile pet"][1]
    patch = found["patch pets"][1]
    assert not root.parent_span_id
    assert patch.parent_span_id == root.span_id
    assert found["reconcile pet"][0] == MANAGER
    if traces:
        trace = receiver.trace_of("reconcile pet", **{"k8s.object.name": "rex"})
        theirs = [span for service, span in trace if service == SERVER]
        assert patch.span_id in {span.parent_span_id for span in theirs}
        review = next(span for name, (_, span) in found.items() if name.startswith("review /mutate"))
        assert review.parent_span_id in {span.span_id for span in theirs}
    manager.terminate()
    assert manager.wait() == 0


def test_manager_exits_on_sigterm_while_the_trace_collector_never_answers(
    receiver: Receiver, crds: ControlPlane, run_manager: RunManager
):
    receiver.silent.set()
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "100000",
    }
    namespace = new_namespace(crds)
    crds.api.create(foo_path(namespace), foo("lonely", "jack"))
    flags = ("--controllers=foo", f"--namespaces={namespace}")
    manager = run_manager(crds.kubeconfig, *flags, environ=environ).wait_ready()
    assert receiver.asked.wait(60)
    manager.terminate()
    assert manager.wait() == 0
