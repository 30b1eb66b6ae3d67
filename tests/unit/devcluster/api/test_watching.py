from __future__ import annotations

from tests.unit.devcluster.api.conftest import CONFIG_MAPS, MERGE, METADATA, TABLE, Api, config_map

STREAMING_LIST = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


async def test_a_watch_from_a_version_has_all_that_followed(api: Api) -> None:
    await api.expect(201, "POST", CONFIG_MAPS, config_map("a"))
    lines = await api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion=1")
    await api.expect(200, "PATCH", f"{CONFIG_MAPS}/a", {"data": {"n": "1"}}, media=MERGE)
    await api.expect(200, "DELETE", f"{CONFIG_MAPS}/a")
    assert await lines.names(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    await lines.aclose()


async def test_a_watch_without_a_version_begins_with_what_there_is(api: Api) -> None:
    await api.expect(201, "POST", CONFIG_MAPS, config_map("a"))
    lines = await api.watch(f"{CONFIG_MAPS}?watch=1")
    await api.expect(201, "POST", CONFIG_MAPS, config_map("b"))
    assert await lines.names(2) == [("ADDED", "a"), ("ADDED", "b")]
    await lines.aclose()


async def test_a_streaming_list_says_where_it_ends(api: Api) -> None:
    await api.expect(201, "POST", CONFIG_MAPS, config_map("a"))
    lines = await api.watch(f"{CONFIG_MAPS}?watch=1&{STREAMING_LIST}", accept=METADATA)
    assert (await lines.next())["object"]["kind"] == "PartialObjectMetadata"
    end = await lines.next()
    assert end["type"] == "BOOKMARK"
    assert end["object"]["metadata"] == {
        "resourceVersion": "2",
        "annotations": {"k8s.io/initial-events-end": "true"},
    }
    await lines.aclose()


async def test_what_is_no_longer_selected_is_deleted_and_what_comes_to_be_is_added(api: Api) -> None:
    await api.expect(201, "POST", CONFIG_MAPS, config_map("a", labels={"on": "yes"}))
    lines = await api.watch(f"{CONFIG_MAPS}?watch=1&labelSelector=on=yes&resourceVersion=2")
    off = await api.expect(
        200, "PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"on": "no"}}}, media=MERGE
    )
    left = await lines.next()
    assert left["type"] == "DELETED"
    assert left["object"]["metadata"]["labels"] == {"on": "yes"}
    assert left["object"]["metadata"]["resourceVersion"] == off["metadata"]["resourceVersion"]
    await api.expect(200, "PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"on": "yes"}}}, media=MERGE)
    assert await lines.names(1) == [("ADDED", "a")]
    await lines.aclose()


async def test_a_forgotten_version_is_an_event_of_a_stream_that_ends(api: Api) -> None:
    for name in "abc":
        await api.expect(201, "POST", CONFIG_MAPS, config_map(name))
    api.server.store.expire_history()
    lines = await api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion=2")
    event = await lines.next()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["message"]) == (410, "too old resource version: 2 (4)")
    assert await lines.ended()


async def test_tables_of_a_watch_have_columns_once(api: Api) -> None:
    await api.expect(201, "POST", CONFIG_MAPS, config_map("a"))
    await api.expect(201, "POST", CONFIG_MAPS, config_map("b"))
    lines = await api.watch(f"{CONFIG_MAPS}?watch=1", accept=TABLE)
    first, second = await lines.next(), await lines.next()
    assert first["object"]["columnDefinitions"]
    assert second["object"]["columnDefinitions"] is None
    await lines.aclose()


async def test_a_watch_ends_after_its_time_with_a_bookmark_before(api: Api) -> None:
    await api.expect(201, "POST", CONFIG_MAPS, config_map("a"))
    lines = await api.watch(
        f"{CONFIG_MAPS}?watch=1&timeoutSeconds=3&resourceVersion=2&allowWatchBookmarks=true"
    )
    bookmark = await lines.next()
    assert (bookmark["type"], bookmark["object"]["metadata"]) == ("BOOKMARK", {"resourceVersion": "2"})
    assert await lines.ended()


async def test_a_stream_that_was_never_read_leaves_no_watch(api: Api) -> None:
    lines = await api.watch(f"{CONFIG_MAPS}?watch=1")
    await lines.aclose()
    assert not api.server.store._watches["", "configmaps"]
