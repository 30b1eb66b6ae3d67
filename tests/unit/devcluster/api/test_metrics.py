from __future__ import annotations

from tests.support.metrics import Samples
from tests.unit.devcluster.api.conftest import APPLY, CONFIG_MAPS, MERGE, Api, config_map

OF = {"group": "", "version": "v1", "subresource": "", "component": "apiserver"}
OF_CONFIG_MAPS = {**OF, "resource": "configmaps"}


async def scrape(api: Api) -> Samples:
    answer = await api.ask("GET", "/metrics")
    assert answer.content_type.startswith("text/plain; version=0.0.4;")
    return Samples(answer.body.decode())


async def test_request_metrics_have_verb_scope_dry_run_and_code_labels(api: Api):
    await api.ask("POST", CONFIG_MAPS, config_map("a"))
    await api.ask("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("b"))
    await api.ask("POST", f"{CONFIG_MAPS}?dryRun=Some", config_map("b"))
    await api.ask("PUT", f"{CONFIG_MAPS}/b", config_map("b"))
    await api.ask("PATCH", f"{CONFIG_MAPS}/a", {"data": {"n": "1"}}, media=MERGE)
    await api.ask("PATCH", f"{CONFIG_MAPS}/a?fieldManager=me", b"{}", media=APPLY)
    await api.ask("GET", f"{CONFIG_MAPS}/a")
    await api.ask("GET", f"{CONFIG_MAPS}/none")
    await api.ask("GET", CONFIG_MAPS)
    await api.ask("GET", "/api/v1/configmaps")
    await api.ask("DELETE", CONFIG_MAPS)
    await api.ask("GET", "/apis")
    counted = {
        tuple(sample.labels[name] for name in ("verb", "scope", "dry_run", "code")): sample.value
        for sample in (await scrape(api)).select("apiserver_request_total", **OF_CONFIG_MAPS)
    }
    assert counted == {
        ("POST", "resource", "", "201"): 1,
        ("POST", "resource", "All", "201"): 1,
        ("POST", "resource", "invalid", "422"): 1,
        ("PUT", "resource", "", "404"): 1,
        ("PATCH", "resource", "", "200"): 1,
        ("APPLY", "resource", "", "400"): 1,
        ("GET", "resource", "", "200"): 1,
        ("GET", "resource", "", "404"): 1,
        ("LIST", "namespace", "", "200"): 1,
        ("LIST", "cluster", "", "200"): 1,
        ("DELETE", "namespace", "", "200"): 1,
    }
    page = (await scrape(api)).select("apiserver_request_total", resource="")
    assert [(each.labels["subresource"], each.labels["verb"], each.value) for each in page] == [
        ("apis", "GET", 1)
    ]


async def test_request_metrics_have_no_series_for_unknown_paths_and_methods(api: Api):
    before = len((await scrape(api)).all)
    for path in ("/nothing", "/api/v1/nothings", f"{CONFIG_MAPS}/a/nothing", "/openapi"):
        await api.ask("GET", path)
    await api.ask("PUT", CONFIG_MAPS, {})
    assert len((await scrape(api)).all) == before


async def test_request_metrics_count_a_watch_only_when_it_ends(api: Api):
    labels = {**OF_CONFIG_MAPS, "verb": "WATCH"}
    lines = await api.watch(f"{CONFIG_MAPS}?watch=1")
    one = await api.watch(f"{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Da")
    await api.expect(201, "POST", CONFIG_MAPS, config_map("a"))
    await lines.next()
    during = await scrape(api)
    assert during.value("apiserver_longrunning_requests", scope="namespace", **labels) == 1
    assert during.value("apiserver_longrunning_requests", scope="resource", **labels) == 1
    assert during.value("apiserver_request_total", **labels) == 0
    assert during.value("apiserver_watch_events_total", resource="configmaps") == 1
    await lines.aclose()
    await lines.aclose()
    await one.aclose()
    after = await scrape(api)
    assert after.value("apiserver_longrunning_requests", **labels) == 0
    assert after.value("apiserver_request_total", scope="namespace", code="200", **labels) == 2


async def test_metrics_contain_request_durations_and_response_sizes_and_object_counts(api: Api):
    await api.ask("POST", CONFIG_MAPS, config_map("a"))
    for _ in range(3):
        await api.ask("GET", f"{CONFIG_MAPS}/a")
    await api.ask("GET", "/api/v1/endpoints")
    found = await scrape(api)
    reads = {**OF_CONFIG_MAPS, "verb": "GET", "scope": "resource"}
    assert found.value("apiserver_request_duration_seconds_bucket", le="60", **reads) == 3
    assert 0 < found.value("apiserver_request_duration_seconds_sum", **reads) < 3
    assert found.value("apiserver_response_sizes_bucket", le="1000", **reads) == 3
    assert found.select("apiserver_response_sizes_count", verb="POST") == []
    assert found.value("apiserver_current_inflight_requests", request_kind="readOnly") == 1
    assert found.value("apiserver_storage_objects", resource="configmaps") == 1
    assert found.select("apiserver_storage_objects", resource="deployments.apps")[0].value == 0
    assert found.value("apiserver_resource_objects", group="", resource="configmaps") == 1
    assert found.select("apiserver_storage_objects", resource="tokenreviews.authentication.k8s.io") == []
    assert found.value("apiserver_requested_deprecated_apis", resource="endpoints", removed_release="") == 1


async def test_request_metrics_count_a_patch_of_an_unsupported_media_type(api: Api):
    await api.ask("PATCH", f"{CONFIG_MAPS}/a", {}, media="text/plain")
    [sample] = (await scrape(api)).select("apiserver_request_total", **OF_CONFIG_MAPS)
    assert (sample.labels["verb"], sample.labels["code"], sample.value) == ("PATCH", "415", 1)
