"""Pet operator: it keeps a record in a pet store for each Pet, and removes the record with the Pet.

Only `setup` imports gRPC, because webhooks and flags are also needed in processes that do not run the
operator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter

from apis.petstore.v1alpha1.pet import Pet as OldPet
from apis.petstore.v1beta1.pet import STORE_REACHABLE, Pet
from controllers.petstore.availability import StoreAvailability
from controllers.petstore.birthday import InvalidBirthday, check_birthday
from controllers.petstore.check import StoreCheck
from controllers.petstore.claims import INDEXES, Claims
from controllers.petstore.conversion import (
    check_room,
    size_of_annotations,
    v1alpha1_to_v1beta1,
    v1beta1_to_v1alpha1,
)
from controllers.petstore.keeper import Keeper, StoredRecord
from controllers.petstore.record import ADDED_AS, Content, noted, wanted
from manager import (
    Context,
    Lifespan,
    ObjectKey,
    Operator,
    Priority,
    Result,
    Runnable,
    Setting,
    any_of,
    every,
    generation_changed,
    status_changed,
    termination_started,
    webhook,
)
from manager.api import READY, find_condition
from manager.cache import CacheEvent
from manager.settings import SettingsError
from manager.telemetry.logs import reconcile_log
from manager.telemetry.runs import called
from manager.util.address import parse_address
from manager.util.duration import parse_duration
from manager.util.rate_limit import Repeats
from manager.webhook import AdmissionRequest, JsonObject
from petstore.errors import InvalidPet, NoAnswer, PetStoreError

if TYPE_CHECKING:
    from petstore.client import Handled, PetStoreClient
    from petstore.tls import Tls


def lacks_finalizer(event: CacheEvent) -> bool:
    """Return whether a Pet has lost the finalizer that protects it until its record is gone."""
    return PetOperator.finalizer not in event.meta.finalizers


def some_time(text: str) -> float:
    """Parse a duration into seconds. Raises ValueError if it is not above 0."""
    seconds = parse_duration(text)
    if seconds <= 0:
        raise ValueError("a duration above 0 is expected")
    return seconds


class PetOperator(Operator[Pet]):
    """The operator that keeps the store's records equal to the Pets, and reports their state.

    The first write for a Pet stores the finalizer and an annotation with the content, before the store gets
    the record. The last write stores the id in the status. `Keeper` recovers from failures in between.
    """

    versions = (OldPet,)
    on = any_of(generation_changed, status_changed, termination_started, lacks_finalizer)
    indexes = INDEXES
    # An earlier operator used this finalizer; we find all its records.
    former_finalizers = ("pet.petstore.example.com",)
    finalizer_first = False
    # `Claims` needs all Pets in one process to distinguish two equal ones.
    shared_out = False
    outside = "controllers.petstore.simulation:PetStoreOutside"

    address = Setting(
        "petstore-address",
        parse_address,
        default="localhost:6742",
        description="address of the pet store",
    )
    timeout = Setting(
        "petstore-timeout",
        some_time,
        placeholder="DURATION",
        default="5s",
        description="time limit of a call to the pet store",
    )
    check_interval = Setting(
        "petstore-check-interval",
        some_time,
        placeholder="DURATION",
        default="5m",
        description="how often to check the pet store for records that were changed or lost",
    )
    # The files are read again when they are renewed.
    tls_ca_file = Setting(
        "petstore-tls-ca-file",
        description="use TLS for the pet store, and trust these CAs (PEM)",
        placeholder="FILE",
    )
    tls_cert_file = Setting(
        "petstore-tls-cert-file",
        description="the certificate to show the pet store (PEM)",
        placeholder="FILE",
    )
    tls_key_file = Setting(
        "petstore-tls-key-file",
        description="the key of --petstore-tls-cert-file (PEM)",
        placeholder="FILE",
    )
    tls_server_name = Setting(
        "petstore-tls-server-name",
        description="host name in the pet store's certificate",
        unset="the host of --petstore-address",
        placeholder="NAME",
    )

    # Components that run as long as the manager

    def setup(self) -> None:
        """Create the store's client, and add it and the task that probes the store to the manager."""
        store, manager = self.connect(), self.manager
        manager.add(Lifespan(lambda: store))
        self.use(store)
        manager.add(Runnable("petstore-availability", self.availability.run, leader_only=True))

    def connect(self) -> PetStoreClient:
        """Create the client: one connection for the process, opened by the first call."""
        from petstore.client import PetStoreClient  # noqa: PLC0415 - 50 ms, 13 MB: gRPC

        return PetStoreClient(
            self.address,
            timeout=self.timeout,
            handled=calls_counted(self.manager.metrics.registry),
            writing=self.manager.leadership.held,
            reading=self.manager.leadership.permit,
            tls=self.tls(),
            server_name=self.tls_server_name,
        )

    def use(self, store: PetStoreClient) -> None:
        """Make the operator use that store."""
        pets, rng = self.manager.cache.informer(Pet), self.manager.rng
        ask_for = partial(self.enqueue, priority=Priority.LOW)  # changes by users come first
        self.claims = Claims(pets)
        self.keeper = Keeper(store, self.claims)
        self.availability = StoreAvailability(store, ask_for, rng=rng)
        self.check = StoreCheck(store, pets, ask_for, self.availability)
        self.failures: defaultdict[tuple[str, type[PetStoreError]], Repeats] = defaultdict(Repeats)

    def tls(self) -> Tls | None:
        """Return the TLS settings; None without TLS. Raises SettingsError for unusable files."""
        files = (self.tls_ca_file, self.tls_cert_file, self.tls_key_file)
        if not any(files):
            return None
        from petstore.tls import Tls, TlsFiles, TlsUnusable  # noqa: PLC0415 - 60 ms, 22 MB: cryptography

        ca, cert, key = (Path(file) if file else None for file in files)
        try:
            return Tls.of_client(TlsFiles(ca_file=ca, cert_file=cert, key_file=key))
        except TlsUnusable as error:
            raise SettingsError(f"--petstore-tls-{error.file.replace('_', '-')}: {error}") from None

    @every(check_interval)
    async def check_store(self) -> None:
        """Check the store, whose changes no watch reports, and the statuses of the Pets."""
        await self.check.run()

    # Work for each Pet

    async def reconcile(self, pet: Pet, ctx: Context) -> None:
        """Make sure that the store has the Pet's record."""
        await self.take_back(pet.key, but=pet.metadata.uid)
        content, key = wanted(pet), pet.key
        self.availability.require()
        id_known = bool(self.claims.id_of(pet))
        fresh = (
            not id_known
            and ADDED_AS not in pet.metadata.annotations
            and self.finalizers.isdisjoint(pet.metadata.finalizers)
        )
        note = {} if id_known or noted(pet) is not None else {ADDED_AS: content.note()}
        await ctx.ensure_finalizer(annotations=note)
        kept = await self.keeper.keep(pet, content, ctx, fresh=fresh)
        self.announce(pet, content, kept, ctx)
        pet.status.id = kept.id
        ctx.condition(READY, True, "InStore", f"the store has it as {kept.id}")
        self.answered(pet, ctx)
        self.availability.forget(key)
        ctx.once_written(lambda: self.claims.settle(key))

    async def cleanup(self, pet: Pet, ctx: Context) -> None:
        """Make sure that the store does not have the Pet's record."""
        await self.take_back(pet.key, but=pet.metadata.uid)
        self.availability.require()
        try:
            content = wanted(pet)
        except InvalidBirthday:
            content = None
        if await self.keeper.remove(pet, content):
            ctx.event("Removed", f"Removed {pet.spec.name} from the pet store", once_written=True)
        # Users see these conditions while other finalizers keep the Pet.
        pet.status.id = None
        ctx.condition(READY, False, "Removed", "is being deleted; the store does not have it any more")
        ctx.condition(STORE_REACHABLE, True, "Answered")
        ctx.once_written(lambda: self.claims.settle(pet.key))

    async def gone(self, key: ObjectKey) -> Result | None:
        """Remove a record that was being created for a deleted Pet, and delete all state about the Pet."""
        try:
            await self.take_back(key)
        except PetStoreError as error:
            self.log_failure("cannot remove the pet of a deleted Pet object from the store", error)
            if isinstance(error, NoAnswer):
                self.availability.doubt()
            return Result(requeue_after=self.availability.try_again_after(key))
        self.claims.settle(key)
        self.availability.forget(key)
        return None

    def handed_over(self, key: ObjectKey) -> None:
        """Delete the state about a Pet; the next replica finds the record by the Pet's status or a search."""
        self.claims.settle(key)
        self.availability.forget(key)

    async def take_back(self, key: ObjectKey, *, but: str = "") -> None:
        """Remove a record whose creation for a deleted Pet with that key was not completed.

        Nothing happens if the Pet's UID is `but`.
        """
        begun = self.claims.find(key)
        if begun is None or begun.metadata.uid == but:
            return
        self.availability.require()
        if await self.keeper.remove(begun, noted(begun)):
            reconcile_log().info("removed a pet from the store: its Pet was deleted", uid=begun.metadata.uid)
        self.claims.settle(key)
        self.availability.forget(key)

    async def on_error(self, pet: Pet, error: Exception, ctx: Context) -> Result | None:
        """Report an error of the store or of the birthday in the status."""
        message = str(error)
        match error:
            case NoAnswer():
                return self.no_answer(pet, error, ctx)
            case InvalidBirthday():
                reason, message = "InvalidBirthday", f"spec.birthday: {message}"
            case InvalidPet():
                # The store names fields of the call, such as "pets[0].name: must not be blank".
                message = message.replace("pets[0].type", "spec.species").replace("pets[0].", "spec.")
                reason = "InvalidPet"
            case PetStoreError():
                self.log_failure("the pet store failed", error)
                reason = "StoreFailed"
            case _:
                return await super().on_error(pet, error, ctx)
        ready = find_condition(pet.status.conditions, READY)
        # The message may differ each time.
        told = reason == "StoreFailed" and ready is not None and ready.reason == reason
        if pet.metadata.deletion_timestamp is not None:
            message = f"is being deleted; waits for the pet store at {self.address}: {message}"
        ctx.condition(READY, False, reason, message, event=None if told else "Warning")
        if isinstance(error, PetStoreError):
            self.answered(pet, ctx)
        if reason == "StoreFailed":
            return Result(requeue_after=self.availability.try_again_after(pet.key))
        self.availability.forget(pet.key)
        return None

    # Reports to users

    def announce(self, pet: Pet, content: Content, kept: StoredRecord, ctx: Context) -> None:
        """Record an Event if the record was added, updated or adopted."""
        match kept.deed:
            case "added" if pet.status.id:
                ctx.event("Restored", f"Added {content} to the pet store again, as {kept.id}")
            case "added":
                ctx.event("Added", f"Added {content} to the pet store as {kept.id}")
            case "adopted":
                ctx.event("Adopted", f"Took over {kept.id} of the pet store, which had no owner: {content}")
            case "updated" if _is_settled(pet, "True"):
                ctx.event("Restored", f"Put {kept.id} of the pet store back as it should be: {content}")
            case "updated":
                ctx.event("Updated", f"Changed {kept.id} of the pet store to {content}")

    def answered(self, pet: Pet, ctx: Context) -> None:
        """Set the condition that the store is reachable; record an Event if it was unreachable before."""
        if _was_unreachable(pet):
            ctx.event("StoreReachable", f"The pet store at {self.address} answers again", once_written=True)
        ctx.condition(STORE_REACHABLE, True, "Answered")

    def no_answer(self, pet: Pet, error: NoAnswer, ctx: Context) -> Result | None:
        """Report that the store does not answer; retry when it answers again, or after a while."""
        if not self.availability.down:
            self.log_failure("no answer from the pet store", error)
            self.availability.doubt()
        self.availability.wait(pet.key)
        # The message is the same for all attempts, so that repeats write nothing; the log has the details.
        deleting = pet.metadata.deletion_timestamp is not None
        store, after = f"the pet store at {self.address}", "it is asked again until it does"
        message = f"{store} does not answer; {after}"
        if not _was_unreachable(pet):
            told = message[0].upper() + message[1:]
            ctx.event("StoreUnreachable", told, warning=True, once_written=True)
        if deleting:
            message = f"is being deleted; waits for {store}, which does not answer; {after}"
        # A correct record may still be correct; one that was never written is not.
        still = not deleting and _is_settled(pet, "True", "Unknown")
        ctx.condition(READY, "Unknown" if still else False, "StoreUnreachable", message)
        ctx.condition(STORE_REACHABLE, False, "NoAnswer", message)
        if self.availability.down:
            # `StoreAvailability` queues the Pet when the store is back: thousands of timers would do nothing
            # until then.
            ctx.awaits(f"{store} answers; it is asked every second or two")
            return None
        return Result(requeue_after=self.availability.try_again_after(pet.key))

    def log_failure(self, event: str, error: PetStoreError) -> None:
        """Log a failure that affects every Pet; while the failure lasts, log it less and less often."""
        if (times := self.failures[event, type(error)].count()) is not None:
            log = reconcile_log()
            # `StoreAvailability` logs the warning that the store does not answer.
            write = log.info if isinstance(error, NoAnswer) else log.warning
            write(event, error=str(error), times=times)

    # Admission: None of these webhooks stops a request that only removes a finalizer. An object from before a
    # rule, or from a time without webhooks, can be edited and deleted, unless the request writes the wrong
    # value again.

    @webhook.default
    async def tidy(self, pet: JsonObject, request: AdmissionRequest) -> None:
        """Trim the name, and convert the species to lower case, if the request changes them.

        A blank name is not trimmed, so that the schema's error quotes the user's text. A stored name is not
        trimmed while other fields change, because for example the removal of a finalizer must not rename the
        pet.
        """
        spec, old = _spec(pet), _spec(request.old_object)
        name, species = spec.get("name"), spec.get("species")
        if isinstance(name, str) and name != old.get("name"):
            spec["name"] = name.strip() or name
        if isinstance(species, str) and species != old.get("species"):
            spec["species"] = species.lower()

    @webhook.validate_create
    @webhook.validate_update
    async def judge(self, old: Pet | None, new: Pet, request: AdmissionRequest) -> Iterable[str]:
        """Refuse new birthdays that are invalid, and annotations that are too large for conversions.

        Warn about a changed species. A Pet under deletion may have any value.
        """
        if new.metadata.deletion_timestamp is not None:
            return ()
        if old is None or new.spec.birthday != old.spec.birthday:
            check_birthday(new.spec.birthday)
        if old is None or new.spec != old.spec or size_of_annotations(new) > size_of_annotations(old):
            check_room(new)
        if old is None or new.spec.species == old.spec.species:
            return ()
        field = "spec.type" if request.requested_kind == OldPet.gvk else "spec.species"
        change = f"{field}: changed from {old.spec.species} to {new.spec.species}"
        return (f"{change}; the pet keeps its record in the store: for another animal, make another Pet",)

    @webhook.to_hub(OldPet)
    async def from_v1alpha1(self, pet: JsonObject) -> None:
        """Convert a Pet from v1alpha1 to v1beta1."""
        v1alpha1_to_v1beta1(pet)

    @webhook.from_hub(OldPet)
    async def to_v1alpha1(self, pet: JsonObject) -> None:
        """Convert a Pet from v1beta1 to v1alpha1."""
        v1beta1_to_v1alpha1(pet)


def calls_counted(registry: CollectorRegistry) -> Handled:
    """Return a callback that records gRPC calls, and counts them in the metric grpc_client_handled_total."""
    labels = ("grpc_type", "grpc_service", "grpc_method", "grpc_code")
    calls = Counter("grpc_client_handled", "Calls ended, by status.", labels, registry=registry)

    def observe(kind: str, method: str, code: str, seconds: float) -> None:
        calls.labels(kind, "petstore.PetStore", method, code).inc()
        called(f"petstore.PetStore/{method}", seconds, "" if code == "OK" else code)

    return observe


def _was_unreachable(pet: Pet) -> bool:
    reachable = find_condition(pet.status.conditions, STORE_REACHABLE)
    return reachable is not None and reachable.status == "False"


def _is_settled(pet: Pet, *statuses: str) -> bool:
    ready, generation = find_condition(pet.status.conditions, READY), pet.metadata.generation
    return ready is not None and ready.status in statuses and ready.observed_generation == generation


def _spec(pet: JsonObject | None) -> JsonObject:
    spec = (pet or {}).get("spec")
    return spec if isinstance(spec, dict) else {}
