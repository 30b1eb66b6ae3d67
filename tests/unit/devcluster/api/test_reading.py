from __future__ import annotations

import pytest

from tests.unit.devcluster.api.conftest import CONFIG_MAPS, METADATA, TABLE, Api, config_map


@pytest.fixture
async def filled(api: Api) -> Api:
    for name in "abcde":
        await api.expect(
            201, "POST", CONFIG_MAPS, config_map(name, labels={"odd": str(name in "ace").lower()})
        )
    return api


async def names(api: Api, query: str) -> list[str]:
    listed = await api.expect(200, "GET", f"{CONFIG_MAPS}?{query}")
    return [item["metadata"]["name"] for item in listed["items"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "abcde"),
        ("labelSelector=odd=true", "ace"),
        ("labelSelector=odd!=true", "bd"),
        ("labelSelector=odd+in+(true,other),!nope", "ace"),
        ("fieldSelector=metadata.name=b", "b"),
        ("fieldSelector=metadata.name!=b", "acde"),
        ("fieldSelector=metadata.namespace=default", "abcde"),
        ("resourceVersion=0&limit=2", "abcde"),
        ("resourceVersion=3&resourceVersionMatch=Exact", "ab"),
        ("resourceVersion=3&resourceVersionMatch=NotOlderThan", "abcde"),
    ],
)
async def test_lists_select(filled: Api, query: str, expected: str) -> None:
    assert await names(filled, query) == list(expected)


async def test_pages_show_the_state_of_the_first(filled: Api) -> None:
    page = await filled.expect(200, "GET", f"{CONFIG_MAPS}?limit=2")
    assert page["metadata"]["remainingItemCount"] == 3
    await filled.expect(200, "DELETE", f"{CONFIG_MAPS}/d")
    token = page["metadata"]["continue"]
    assert await names(filled, f"limit=9&continue={token}") == ["c", "d", "e"]


async def test_a_page_after_its_state_is_forgotten_offers_to_go_on(filled: Api) -> None:
    page = await filled.expect(200, "GET", f"{CONFIG_MAPS}?limit=2")
    await filled.expect(200, "DELETE", f"{CONFIG_MAPS}/d")
    filled.server.store.expire_history()
    gone = await filled.expect(410, "GET", f"{CONFIG_MAPS}?limit=2&continue={page['metadata']['continue']}")
    assert gone["reason"] == "Expired"
    assert await names(filled, f"continue={gone['metadata']['continue']}") == ["c", "e"]


async def test_with_a_selector_a_page_ends_the_list_only_where_no_object_follows(filled: Api) -> None:
    page = await filled.expect(200, "GET", f"{CONFIG_MAPS}?limit=2&labelSelector=odd=false")
    assert "remainingItemCount" not in page["metadata"]
    rest = await filled.expect(
        200, "GET", f"{CONFIG_MAPS}?limit=2&labelSelector=odd=false&continue={page['metadata']['continue']}"
    )
    assert (rest["items"], "continue" in rest["metadata"]) == ([], False)


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("labelSelector=a===", 400, "unable to parse requirement: found '=', expected: identifier"),
        ("fieldSelector=a", 400, "invalid selector: 'a'; can't understand 'a'"),
        (
            "fieldSelector=spec.x=1",
            400,
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        (
            "continue=!",
            400,
            "invalid continue token: continue key is not valid: illegal base64 data at input byte 0",
        ),
        ("resourceVersion=999", 504, "Timeout: Too large resource version: 999, current: 6"),
        (
            "resourceVersion=x",
            400,
            (
                'invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: '
                'parsing "x": invalid syntax'
            ),
        ),
        (
            "resourceVersion=1&resourceVersionMatch=Exact&continue=x",
            422,
            (
                'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
                "resourceVersionMatch is forbidden when continue is provided"
            ),
        ),
    ],
)
async def test_bad_options_are_named(filled: Api, query: str, code: int, message: str) -> None:
    assert (await filled.expect(code, "GET", f"{CONFIG_MAPS}?{query}"))["message"] == message


async def test_items_of_built_in_lists_do_not_say_their_kind(filled: Api) -> None:
    listed = await filled.expect(200, "GET", CONFIG_MAPS)
    assert (listed["kind"], set(listed["items"][0])) == ("ConfigMapList", {"metadata", "data"})


async def test_a_table_has_columns_rows_and_metadata(filled: Api) -> None:
    table = await filled.expect(200, "GET", f"{CONFIG_MAPS}?limit=1", accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    (row,) = table["rows"]
    assert row["cells"] == ["a", 1, "0s"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert table["metadata"]["remainingItemCount"] == 4


async def test_metadata_alone(filled: Api) -> None:
    partial = await filled.expect(200, "GET", f"{CONFIG_MAPS}/a", accept=METADATA)
    assert set(partial) == {"kind", "apiVersion", "metadata"}
    status = await filled.expect(406, "GET", CONFIG_MAPS, accept=METADATA)
    assert status["message"] == (
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"
    )


async def test_yaml_in_and_out(api: Api) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {day: 2026-01-01}\n"
    await api.expect(201, "POST", CONFIG_MAPS, text, media="application/yaml")
    answer = await api.ask("GET", f"{CONFIG_MAPS}/a", accept="application/yaml")
    assert answer.content_type == "application/yaml"
    assert b'day: "2026-01-01"' in answer.body


@pytest.mark.parametrize(
    ("path", "status"),
    [("/api/v1/nope", 404), ("/apis/apps/v7/deployments", 404), ("/apis/nope/v1/x", 404), ("/nope", 404)],
)
async def test_unknown_paths_are_not_found(api: Api, path: str, status: int) -> None:
    answer = await api.ask("GET", path)
    assert answer.status == status
    plain = path in {"/apis/nope/v1/x", "/nope"}
    assert answer.content_type == ("text/plain; charset=utf-8" if plain else "application/json")
