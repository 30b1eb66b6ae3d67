"""Pet: keeps a record in a pet store equal to each Pet, and removes it with the Pet.

Only `setup` imports gRPC: webhooks are served, and flags known, where the operator does not run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from apis.petstore.v1alpha1.pet import Pet as OldPet
from apis.petstore.v1beta1.pet import Pet
from controllers.petstore.birthday import InvalidBirthday, check_birthday
from controllers.petstore.check import StoreCheck
from controllers.petstore.claims import INDEXES, Claims
from controllers.petstore.conversion import (
    check_room,
    size_of_annotations,
    v1alpha1_to_v1beta1,
    v1beta1_to_v1alpha1,
)
from controllers.petstore.keeper import Keeper, Kept
from controllers.petstore.outlook import Outlook
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
from manager.api import find_condition
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
    from prometheus_client import CollectorRegistry

    from petstore.client import Handled, PetStoreClient
    from petstore.tls import Tls


def lacks_finalizer(event: CacheEvent) -> bool:
    """Somebody took away what holds the Pet until its record is gone."""
    return PetOperator.finalizer not in event.meta.finalizers


def some_time(text: str) -> float:
    """Seconds. Raises ValueError unless it is a duration above 0."""
    seconds = parse_duration(text)
    if seconds <= 0:
        raise ValueError("a duration above 0 is expected")
    return seconds


class PetOperator(Operator[Pet]):
    """Brings the store to what each Pet says, and the Pet's status to what the store answers.

    The first write for a Pet stores the finalizer and a note of what is about to be added, before the store
    hears of it; the last one the id in its status. What fails in between is found again by `Keeper`.
    """

    versions = (OldPet,)
    on = any_of(generation_changed, status_changed, termination_started, lacks_finalizer)
    indexes = INDEXES
    # Left by the operator that this one takes over from; it knows no record that we would not find.
    former_finalizers = ("pet.petstore.example.com",)
    finalizer_first = False
    # Two Pets that are alike are told apart by what `Claims` knows of both.
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

    # What runs as long as the manager

    def setup(self) -> None:
        """Make the client of the store, and the watch over the store beside it."""
        store, manager = self.connect(), self.manager
        manager.add(Lifespan(lambda: store))
        self.use(store)
        manager.add(Runnable("petstore-outlook", self.outlook.run, leader_only=True))

    def connect(self) -> PetStoreClient:
        """One connection for the whole process; it is made with the first call."""
        from petstore.client import PetStoreClient  # noqa: PLC0415 - it brings gRPC

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
        """Keep Pets in that store."""
        pets, rng = self.manager.cache.informer(Pet), self.manager.rng
        ask_for = partial(self.enqueue, priority=Priority.LOW)  # what people do now comes first
        self.claims = Claims(pets)
        self.keeper = Keeper(store, self.claims)
        self.outlook = Outlook(store, ask_for, rng=rng)
        self.check = StoreCheck(store, pets, ask_for, self.outlook)
        self.failures: defaultdict[tuple[str, type[PetStoreError]], Repeats] = defaultdict(Repeats)

    def tls(self) -> Tls | None:
        """What the settings say. Raises SettingsError."""
        files = (self.tls_ca_file, self.tls_cert_file, self.tls_key_file)
        if not any(files):
            return None
        from petstore.tls import Tls, TlsFiles, TlsUnusable  # noqa: PLC0415 - it brings cryptography

        ca, cert, key = (Path(file) if file else None for file in files)
        try:
            return Tls.of_client(TlsFiles(ca_file=ca, cert_file=cert, key_file=key))
        except TlsUnusable as error:
            raise SettingsError(f"--petstore-tls-{error.file.replace('_', '-')}: {error}") from None

    @every(check_interval)
    async def check_store(self) -> None:
        """Look for what was changed or lost where no watch tells of it."""
        await self.check.run()

    # What is done for each Pet

    async def reconcile(self, pet: Pet, ctx: Context) -> None:
        """Make sure that the store has it."""
        await self.take_back(pet.key, but=pet.metadata.uid)
        content, key = wanted(pet), pet.key
        self.outlook.require()
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
        ctx.condition("Ready", True, "InStore", f"the store has it as {kept.id}")
        self.answered(pet, ctx)
        self.outlook.forget(key)
        ctx.once_written(lambda: self.claims.settle(key))

    async def cleanup(self, pet: Pet, ctx: Context) -> None:
        """Make sure that the store does not have it."""
        await self.take_back(pet.key, but=pet.metadata.uid)
        self.outlook.require()
        try:
            content = wanted(pet)
        except InvalidBirthday:
            content = None
        if await self.keeper.remove(pet, content):
            ctx.event("Removed", f"Removed {pet.spec.name} from the pet store", once_written=True)
        # People see these where finalizers of others keep the Pet.
        pet.status.id = None
        ctx.condition("Ready", False, "Removed", "is being deleted; the store does not have it any more")
        ctx.condition("StoreReachable", True, "Answered")
        ctx.once_written(lambda: self.claims.settle(pet.key))

    async def gone(self, key: ObjectKey) -> Result | None:
        """There is no such Pet any more, whatever the cache says: take back what was added, and forget it."""
        try:
            await self.take_back(key)
        except PetStoreError as error:
            self.log_failure("cannot take back the record of a Pet that is gone", error)
            if isinstance(error, NoAnswer):
                self.outlook.doubt()
            return Result(requeue_after=self.outlook.try_again_after(key))
        self.claims.settle(key)
        self.outlook.forget(key)
        return None

    def handed_over(self, key: ObjectKey) -> None:
        """The store, and the status, say which record it has."""
        self.claims.settle(key)
        self.outlook.forget(key)

    async def take_back(self, key: ObjectKey, *, but: str = "") -> None:
        """Remove what was begun for a Pet of that name, for any `but` the one of this UID."""
        begun = self.claims.begun(key)
        if begun is None or begun.metadata.uid == but:
            return
        self.outlook.require()
        if await self.keeper.remove(begun, noted(begun)):
            reconcile_log().info("removed the record of a Pet that is gone", uid=begun.metadata.uid)
        self.claims.settle(key)
        self.outlook.forget(key)

    async def on_error(self, pet: Pet, error: Exception, ctx: Context) -> Result | None:
        """Say what the store, or the calendar, has against it."""
        message = str(error)
        match error:
            case NoAnswer():
                return self.no_answer(pet, error, ctx)
            case InvalidBirthday():
                reason, message = "InvalidBirthday", f"spec.birthday: {message}"
            case InvalidPet():
                # It names the field as it stands in the call: "pets[0].name: must not be blank".
                message = message.replace("pets[0].type", "spec.species").replace("pets[0].", "spec.")
                reason = "InvalidPet"
            case PetStoreError():
                self.log_failure("the pet store failed", error)
                reason = "StoreFailed"
            case _:
                return await super().on_error(pet, error, ctx)
        ready = find_condition(pet.status.conditions, "Ready")
        # Each failure may have other words.
        told = reason == "StoreFailed" and ready is not None and ready.reason == reason
        if pet.metadata.deletion_timestamp is not None:
            message = f"is being deleted; waits for the pet store at {self.address}: {message}"
        ctx.condition("Ready", False, reason, message, event=None if told else "Warning")
        if isinstance(error, PetStoreError):
            self.answered(pet, ctx)
        if reason == "StoreFailed":
            return Result(requeue_after=self.outlook.try_again_after(pet.key))
        self.outlook.forget(pet.key)
        return None

    # What a person is told

    def announce(self, pet: Pet, content: Content, kept: Kept, ctx: Context) -> None:
        """Tell what was done. Nobody asked for it when the Pet was ready as it is."""
        match kept.deed:
            case "added" if pet.status.id:
                ctx.event("Restored", f"Added {content} to the pet store again, as {kept.id}")
            case "added":
                ctx.event("Added", f"Added {content} to the pet store as {kept.id}")
            case "adopted":
                ctx.event("Adopted", f"Took over {kept.id} of the pet store, which was nobody's: {content}")
            case "updated" if _is_settled(pet, "True"):
                ctx.event("Restored", f"Put {kept.id} of the pet store back as it should be: {content}")
            case "updated":
                ctx.event("Updated", f"Changed {kept.id} of the pet store to {content}")

    def answered(self, pet: Pet, ctx: Context) -> None:
        """The store has answered."""
        if _was_unreachable(pet):
            ctx.event("StoreReachable", f"The pet store at {self.address} answers again", once_written=True)
        ctx.condition("StoreReachable", True, "Answered")

    def no_answer(self, pet: Pet, error: NoAnswer, ctx: Context) -> Result | None:
        """Say that the store does not answer, and come back: when it does, or after a while."""
        if not self.outlook.down:
            self.log_failure("no answer from the pet store", error)
            self.outlook.doubt()
        self.outlook.wait(pet.key)
        # The same from one attempt to the next, so that they write nothing: the log has the details.
        deleting = pet.metadata.deletion_timestamp is not None
        store, after = f"the pet store at {self.address}", "it is asked again until it does"
        message = f"{store} does not answer; {after}"
        if not _was_unreachable(pet):
            told = message[0].upper() + message[1:]
            ctx.event("StoreUnreachable", told, warning=True, once_written=True)
        if deleting:
            message = f"is being deleted; waits for {store}, which does not answer; {after}"
        # What was right when the store was last seen may still be; what was never done, is not.
        still = not deleting and _is_settled(pet, "True", "Unknown")
        ctx.condition("Ready", "Unknown" if still else False, "StoreUnreachable", message)
        ctx.condition("StoreReachable", False, "NoAnswer", message)
        if self.outlook.down:
            # `Outlook` asks for it when that ends; thousands of timers would do nothing until then.
            ctx.awaits(f"{store} answers; it is asked every second or two")
            return None
        return Result(requeue_after=self.outlook.try_again_after(pet.key))

    def log_failure(self, event: str, error: PetStoreError) -> None:
        """A store that fails does so for every Pet: the log says it at once, and then less and less often."""
        if (times := self.failures[event, type(error)].count()) is not None:
            log = reconcile_log()
            # That it does not answer is what `Outlook` warns of.
            write = log.info if isinstance(error, NoAnswer) else log.warning
            write(event, error=str(error), times=times)

    # What the API server asks
    #
    # None of it stands in the way of whoever only removes a finalizer: an object that came in before a rule
    # did, or while nobody was asked, can be edited and deleted as ever, as long as what is wrong is not
    # written anew.

    @webhook.default
    async def tidy(self, pet: JsonObject, request: AdmissionRequest) -> None:
        """Trim the name and write the species in lower case, where this request brings them.

        What is no text is left to the schema to refuse, and so is a name with nothing in it but space:
        trimmed, the message would quote a name that nobody has written. Space is what the store, and the
        schema, call blank. What was stored untrimmed stays as it is while only something else is written:
        taking a finalizer away renames no pet.
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
        """Refuse a birthday that cannot be one, and annotations that leave no room for notes, where they are
        new; warn of a pet that becomes another animal.

        What is being deleted may become anything: nobody will have it for long.
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
        """Show a Pet of v1alpha1 in v1beta1."""
        v1alpha1_to_v1beta1(pet)

    @webhook.from_hub(OldPet)
    async def to_v1alpha1(self, pet: JsonObject) -> None:
        """Show a Pet of v1beta1 in v1alpha1."""
        v1beta1_to_v1alpha1(pet)


def calls_counted(registry: CollectorRegistry) -> Handled:
    """What counts a client's calls, under the names that go-grpc-prometheus gave them, and notes them."""
    from prometheus_client import Counter  # noqa: PLC0415 - help does without it

    labels = ("grpc_type", "grpc_service", "grpc_method", "grpc_code")
    calls = Counter("grpc_client_handled", "Calls ended, by status.", labels, registry=registry)

    def told(kind: str, method: str, code: str, seconds: float) -> None:
        calls.labels(kind, "petstore.PetStore", method, code).inc()
        called(f"petstore.PetStore/{method}", seconds, "" if code == "OK" else code)

    return told


def _was_unreachable(pet: Pet) -> bool:
    reachable = find_condition(pet.status.conditions, "StoreReachable")
    return reachable is not None and reachable.status == "False"


def _is_settled(pet: Pet, *statuses: str) -> bool:
    """Whether Ready has one of these statuses, and tells of the spec as it is now."""
    ready, generation = find_condition(pet.status.conditions, "Ready"), pet.metadata.generation
    return ready is not None and ready.status in statuses and ready.observed_generation == generation


def _spec(pet: JsonObject | None) -> JsonObject:
    """The spec, as far as there is one that can be read."""
    spec = (pet or {}).get("spec")
    return spec if isinstance(spec, dict) else {}
