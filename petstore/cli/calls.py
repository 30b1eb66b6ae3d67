"""`petstore add`, `search` and `delete`: each makes one call and prints the response as text or JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from petstore.client import NoAnswer, Pet, PetStoreClient, PetStoreError, PetType
from petstore.errors import visible
from petstore.tls import Tls, TlsFiles, TlsUnusable

_FAILED, _WRONG_USAGE = 1, 2
_ROW = "{:36}  {:7}  {:10}  {}\n"


async def call(command: str, options: Mapping[str, Any]) -> int:
    """Make the command's call to the store; return the exit code."""
    commands = {"add": _add, "search": _search, "delete": _delete}
    files = TlsFiles(
        ca_file=options["tls_ca_file"],
        cert_file=options["tls_cert_file"],
        key_file=options["tls_key_file"],
    )
    try:
        async with PetStoreClient(
            options["address"],
            timeout=options["timeout"],
            tls=await asyncio.to_thread(Tls.of_client, files),
            server_name=options["tls_server_name"],
        ) as store:
            await commands[command](store, options)
    except TlsUnusable as error:
        _fail(f"--tls-{error.file.replace('_', '-')}: {error}")
        return _WRONG_USAGE
    except NoAnswer as error:
        return _fail(f"--address: no answer from the store at {options['address']}: {error}")
    except PetStoreError as error:
        return _fail(str(error))
    sys.stdout.flush()
    return 0


async def _add(store: PetStoreClient, options: Mapping[str, Any]) -> None:
    pet = Pet(
        name=options["name"],
        type=PetType(options["kind"]),
        birthday=options["birthday"],
        idempotency_key=options["idempotency_key"],
    )
    (identity,) = await store.add([pet])
    if options["output"] == "json":
        _write_json({"id": identity})
    else:
        sys.stdout.write(f"{visible(identity)}\n")


async def _search(store: PetStoreClient, options: Mapping[str, Any]) -> None:
    as_json = options["output"] == "json"
    found = store.search(
        names=options["names"],
        types=[PetType(each) for each in options["kinds"]],
        born_from=options["born_from"],
        born_before=options["born_before"],
        keys=options["keys"],
    )
    first = True
    async with aclosing(found) as pets:
        async for pet in pets:
            if as_json:
                sys.stdout.write(("[\n" if first else ",\n") + json.dumps(_fields(pet)))
            else:
                if first:
                    sys.stdout.write(_ROW.format("ID", "TYPE", "BIRTHDAY", "NAME"))
                sys.stdout.write(
                    _ROW.format(visible(pet.id), pet.type.value, pet.birthday.isoformat(), visible(pet.name))
                )
            first = False
    if as_json:
        sys.stdout.write("[]\n" if first else "\n]\n")
    elif first:
        sys.stderr.write("No pets found.\n")


async def _delete(store: PetStoreClient, options: Mapping[str, Any]) -> None:
    await store.delete(options["ids"])
    if options["output"] == "json":
        _write_json({"ids": options["ids"]})
    else:
        sys.stdout.write("".join(f"{identity} is gone\n" for identity in options["ids"]))


def _fields(pet: Pet) -> dict[str, str]:
    fields = {
        "id": pet.id,
        "name": pet.name,
        "type": pet.type.value,
        "birthday": pet.birthday.isoformat(),
    }
    if pet.idempotency_key:
        fields["idempotencyKey"] = pet.idempotency_key
    return fields


def _write_json(content: object) -> None:
    sys.stdout.write(json.dumps(content) + "\n")


def _fail(message: str) -> int:
    sys.stderr.write(f"petstore: {visible(message)}\n")
    return _FAILED
