from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.api import ObjectKey
from manager.cache.record import MOST_KEPT, FieldManagers, Parts, RecordDecoder
from manager.kube.errors import ProtocolError
from tests.unit.cache.objects import Pod, encoded, pod

OTHERS = [
    {
        "manager": "kubelet",
        "operation": "Update",
        "fieldsV1": {"f:status": {'k:{"manager":"operator-manager"}': {}}},
    },
    {"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {}}},
]
OURS = [
    {"manager": "operator-manager-web", "operation": "Apply", "fieldsV1": {"f:spec": {"f:nodeName": {}}}},
    {"manager": "operator-manager+1f0c", "operation": "Update", "fieldsV1": {"f:metadata": {}}},
]


@pytest.fixture
def decoder() -> RecordDecoder:
    return RecordDecoder(Pod.gvk, field_manager="operator-manager")


@pytest.fixture
def metadata_decoder() -> RecordDecoder:
    return RecordDecoder(Pod.gvk, field_manager="operator-manager", metadata_only=True)


def test_decoder_reads_key_uid_version_generation_and_labels(decoder: RecordDecoder):
    record, meta = decoder(
        encoded(pod("a", 7, deletionTimestamp="2026-01-01T00:00:00Z", labels={"app": "web"}))
    )
    assert record.key == ObjectKey("ns", "a")
    assert (record.uid, record.version, record.generation, record.deleting) == ("a-1", 7, 1, True)
    assert meta.labels == {"app": "web"}


def test_decoder_keeps_managed_fields_of_a_former_field_manager_with_or_without_digest_suffix():
    managers = FieldManagers("operator-manager")
    managers.add(["former", "operator-manager"])
    names = ["former", "former+1f0c", "formerly", "kubectl"]
    entries = [{"manager": name, "operation": "Update", "fieldsV1": {}} for name in names]
    record, _ = RecordDecoder(Pod.gvk, field_manager=managers)(encoded(pod("a", 1, managedFields=entries)))
    assert json.loads(record.managed) == entries[:2]


def test_decoder_keeps_a_field_named_managed_fields_outside_of_the_metadata(decoder: RecordDecoder):
    same = {"managedFields": OTHERS}
    record, _ = decoder(encoded({**same, **pod("a", 1, managedFields=OTHERS), "spec": same}))
    assert json.loads(record.raw) == {**same, **pod("a", 1), "spec": same}


@pytest.mark.parametrize(
    "style",
    [{"indent": 2}, {"separators": (" , ", ":")}, {"separators": (",", ":")}],
    ids=["lines", "spaces", "compact"],
)
def test_decoder_stores_our_managed_fields_separately_from_the_object(
    decoder: RecordDecoder, style: dict[str, Any]
):
    for ours in (OURS, []):
        managed = [OTHERS[0], *ours, OTHERS[1]]
        record, _ = decoder(json.dumps(pod("a", 1, managedFields=managed, selfLink="/x"), **style).encode())
        assert json.loads(record.raw) == pod("a", 1, selfLink="/x")
        assert json.loads(record.managed or b"[]") == ours


def test_metadata_decoder_keeps_ordinary_metadata_unchanged(metadata_decoder: RecordDecoder):
    raw = encoded(
        {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": pod("a", 1)["metadata"]}
    )
    assert metadata_decoder(raw)[0].raw == raw


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.parametrize("kind", ["Pod", "PartialObjectMetadata"])
def test_metadata_decoder_drops_large_annotations_and_the_last_applied_annotation(
    metadata_decoder: RecordDecoder, kind: str
):
    annotations = {
        "small": "é" * 2048,
        LAST_APPLIED: '{"data":{"password":"aHVudGVyMg=="}}',
        "large": "x" * 4097,
        "wide": "é" * 2049,
        "": 'a "quoted"\nvalue',
    }
    value = {**pod("a", 1, annotations=annotations, managedFields=OTHERS, labels={"a": "b"}), "kind": kind}
    record, meta = metadata_decoder(json.dumps(value, indent=1, ensure_ascii=False).encode())
    kept = {name: annotations[name] for name in ("small", "")}
    assert json.loads(record.raw)["metadata"] == pod("a", 1, annotations=kept, labels={"a": "b"})["metadata"]
    # Predicates see the same values in events and in the cache.
    assert meta.annotations == record.meta().annotations == kept


def owner(number: int, **more: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "A", "name": "b", "uid": f"u{number}", **more}


def test_metadata_decoder_limits_the_number_of_entries_in_each_metadata_list_and_map(
    metadata_decoder: RecordDecoder,
):
    many = [f"a{number:05}" for number in range(MOST_KEPT + 5)]
    metadata = {
        "labels": dict.fromkeys(many, "é"),
        "annotations": {**dict.fromkeys(many, ""), "a": "x" * 5000},
        "finalizers": [f"example.com/{name}" for name in many],
        # The controller reference is kept at any position, because children are found by it.
        "ownerReferences": [*map(owner, range(MOST_KEPT + 5)), owner(-1, controller=True)],
        "managedFields": [{"manager": "operator-manager", "fieldsV1": {"f:a": {}}}],
    }
    value = pod("a", 1, **metadata)
    record, meta = metadata_decoder(json.dumps(value, indent=1, ensure_ascii=False).encode())
    kept = {
        "labels": dict.fromkeys(many[:MOST_KEPT], "é"),
        "annotations": dict.fromkeys(many[:MOST_KEPT], ""),
        "finalizers": metadata["finalizers"][:MOST_KEPT],
        "ownerReferences": [*map(owner, range(MOST_KEPT - 1)), owner(-1, controller=True)],
    }
    assert json.loads(record.raw) == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": pod("a", 1, **kept)["metadata"],
        # A client that writes one of these lists needs the complete list.
        "cut": ["finalizers", "ownerReferences"],
    }
    # Predicates see the same values in events and in the cache.
    assert msgspec.structs.asdict(record.meta()).items() <= msgspec.structs.asdict(meta).items()


def test_decoder_of_complete_objects_keeps_every_annotation(decoder: RecordDecoder):
    raw = encoded(pod("a", 1, annotations={LAST_APPLIED: "{}", "large": "x" * 5000}))
    assert decoder(raw)[0].raw == raw


def test_decoder_result_keeps_no_reference_to_the_bytes_of_the_watch_event(decoder: RecordDecoder):
    line = b'{"object":%b}' % encoded(pod("a", 1))
    raw = msgspec.json.decode(line, type=dict[str, msgspec.Raw])["object"]
    before = sys.getrefcount(line)
    record, _ = decoder(raw)
    del raw
    assert sys.getrefcount(line) < before
    assert type(record.raw) is bytes


def test_decoder_uses_one_string_for_the_namespace_of_several_objects(decoder: RecordDecoder):
    one, _ = decoder(encoded(pod("a", 1, namespace="shared-by-all")))
    two, _ = decoder(encoded(pod("b", 2, namespace="shared-by-all")))
    assert one.key.namespace is two.key.namespace


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"<html>",
        b"[]",
        b'"text"',
        b"{}",
        b'{"metadata":null}',
        b'{"metadata":{}}',
        b'{"metadata":{"name":"a","uid":"u","resourceVersion":"x"}}',
        b'{"metadata":{"name":"a","uid":"u","resourceVersion":""}}',
        b'{"metadata":{"name":"a","uid":"u","resourceVersion":"1"}',
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure"}',
        b'{"kind":"Secret","metadata":{"name":"a","uid":"u","resourceVersion":"1"}}',
        b'{"metadata":{"name":"\xff","uid":"u","resourceVersion":"1"}}',
    ],
)
def test_decoder_refuses_bytes_that_are_not_an_object_of_its_kind(
    decoder: RecordDecoder, metadata_decoder: RecordDecoder, raw: bytes
):
    for each in (decoder, metadata_decoder):
        with pytest.raises(ProtocolError, match="not a Pod object"):
            each(raw)


def decoder_of(*paths: str) -> RecordDecoder:
    return RecordDecoder(Pod.gvk, field_manager="m", parts=Parts(paths))


def test_decoder_with_field_paths_keeps_selected_fields_and_metadata_without_large_annotations():
    state = {"waiting": {"reason": "ContainerCreating"}}
    containers = [{"name": "c", "state": state}]
    status = {"phase": "Pending", "qosClass": "Burstable", "containerStatuses": containers}
    annotations = {"large": "x" * 5000, "small": "y"}
    raw = encoded(pod("a", 1, labels={"app": "web"}, annotations=annotations) | {"status": status})
    record, meta = decoder_of("status.phase", "status.containerStatuses[*].state")(raw)
    kept = json.loads(record.raw)
    assert kept["status"] == {"phase": "Pending", "containerStatuses": [{"state": state}]}
    assert kept.keys() == {"apiVersion", "kind", "metadata", "status"}
    assert kept["metadata"]["labels"] == meta.labels == {"app": "web"}
    assert kept["metadata"]["annotations"] == meta.annotations == {"small": "y"}
    assert not record.is_cut


@pytest.mark.parametrize("status", [None, "odd", 7, [], {}, {"phase": None}, {"phase": [[1]]}], ids=repr)
def test_decoder_with_field_paths_keeps_a_value_whose_type_does_not_fit_the_path(status: Any):
    record, _ = decoder_of("status.phase.deeper")(encoded(pod("a", 1) | {"status": status}))
    assert json.loads(record.raw)["status"] == status


@pytest.mark.parametrize("paths", [("status", "status.phase"), ("status.phase", "status")])
def test_decoder_keeps_the_complete_field_when_one_path_is_a_prefix_of_another_path(paths: tuple[str, ...]):
    status = {"phase": "Running", "message": "so"}
    record, _ = decoder_of(*paths)(encoded(pod("a", 1) | {"status": status}))
    assert json.loads(record.raw)["status"] == status


field_names = st.text(max_size=8) | st.just("managedFields")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(field_names, inner, max_size=3),
    max_leaves=8,
)
texts = st.dictionaries(field_names, st.text(max_size=20), max_size=3)
entries = st.lists(
    st.fixed_dictionaries(
        {
            "manager": st.sampled_from(
                ["kubelet", "operator-manager", "operator-manager-a", 'x"manager":"operator-manager']
            ),
            "fieldsV1": st.dictionaries(st.text(max_size=12), json_values, max_size=3),
        }
    ),
    max_size=4,
)


@given(
    labels=texts,
    annotations=texts,
    managed=st.none() | entries,
    spec=json_values,
    extra=st.dictionaries(field_names, json_values | entries, max_size=2),
    data=st.data(),
)
def test_decoder_drops_managed_fields_of_other_field_managers_and_nothing_else(
    labels: dict[str, str],
    annotations: dict[str, str],
    managed: list[dict[str, Any]] | None,
    spec: Any,
    extra: dict[str, Any],
    data: st.DataObject,
):
    more = {"labels": labels, "annotations": annotations, "spec": spec, "managedFields": managed}
    value = {**extra, **pod("a", 1, **more)}
    value["metadata"] = dict(data.draw(st.permutations(list(value["metadata"].items()))))
    record, _ = RecordDecoder(Pod.gvk, field_manager="operator-manager")(encoded(value))
    own = [entry for entry in managed or () if entry["manager"].startswith("operator-manager")]
    assert json.loads(record.managed or b"[]") == own
    del value["metadata"]["managedFields"]
    assert json.loads(record.raw) == value


class TestRecordDecoderOwners:
    """Decoder that keeps complete objects if a given kind owns them or we wrote them; otherwise metadata."""

    @pytest.fixture
    def decoder(self) -> RecordDecoder:
        return RecordDecoder(Pod.gvk, field_manager="operator-manager", owners={("example.com", "Foo")})

    @pytest.mark.parametrize(
        "more",
        [
            {"ownerReferences": [owner(1), owner(2, apiVersion="example.com/v2", kind="Foo")]},
            {"managedFields": OURS},
        ],
        ids=["owned", "written-by-us"],
    )
    def test_decoder_keeps_complete_objects_that_a_given_kind_owns_or_this_program_wrote(
        self, decoder: RecordDecoder, more: dict[str, Any]
    ):
        record, _ = decoder(encoded(pod("a", 1, **more)))
        assert not record.is_cut
        assert json.loads(record.raw)["spec"] == pod("a", 1)["spec"]

    @pytest.mark.parametrize(
        "owners",
        [[], [owner(1, kind="Foo")], [owner(1, apiVersion="example.com/v1", kind="Bar", controller=True)]],
        ids=["no-owner", "owner-of-another-group", "owner-of-another-kind"],
    )
    @pytest.mark.parametrize("kind", ["Pod", ""], ids=["watch-event", "list-item"])
    def test_decoder_keeps_only_metadata_of_objects_without_an_owner_of_the_given_kinds(
        self, decoder: RecordDecoder, metadata_decoder: RecordDecoder, owners: list[Any], kind: str
    ):
        value = pod("a", 1, ownerReferences=owners, annotations={"large": "x" * 5000}, managedFields=OTHERS)
        if not kind:
            del value["kind"]
        record, meta = decoder(encoded(value))
        whole, whole_meta = metadata_decoder(encoded(value))
        assert record.is_cut
        assert json.loads(record.raw)["metadata"] == json.loads(whole.raw)["metadata"]
        assert meta.annotations == whole_meta.annotations == {}
