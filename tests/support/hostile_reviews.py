"""Reviews of hostile callers; each is the most expensive of its kind for the webhook that parses it."""

from __future__ import annotations

from collections.abc import Mapping

MUTATE = "/mutate-petstore-example-com-v1beta1-pet"
VALIDATE = "/validate-petstore-example-com-v1beta1-pet"
CONVERT = "/convert"

_MB = 1 << 20
_GROUP = b"petstore.example.com"
_ASKED = (
    b'"uid":"u","kind":{"group":"%b","version":"v1beta1","kind":"Pet"},"resource":{"group":"%b",'
    b'"version":"v1beta1","resource":"pets"},"name":"thor","namespace":"team"' % (_GROUP, _GROUP)
)


def admission(new: bytes = b"null", old: bytes = b"null", *, user: bytes = b"{}") -> bytes:
    """Return an AdmissionReview of an update from `old` to `new`, or of a creation if `old` is null."""
    operation = b"CREATE" if old == b"null" else b"UPDATE"
    return (
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{%b,"operation":"%b",'
        b'"userInfo":%b,"object":%b,"oldObject":%b}}' % (_ASKED, operation, user, new, old)
    )


def conversion(objects: bytes) -> bytes:
    """Return a ConversionReview to v1beta1 of `objects`, a JSON list."""
    return (
        b'{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u",'
        b'"desiredAPIVersion":"%b/v1beta1","objects":%b}}' % (_GROUP, objects)
    )


def pet(
    *, version: bytes = b"v1beta1", metadata: bytes = b"{}", spec: bytes = b"", more: bytes = b""
) -> bytes:
    """Return a Pet whose name has spaces at both ends.

    `spec` is JSON text before the name, and ends with a comma. `more` is JSON text after the spec, and begins
    with a comma.
    """
    return b'{"apiVersion":"%b/%b","kind":"Pet","metadata":%b,"spec":{%b"name":" Thor "}%b}' % (
        _GROUP,
        version,
        metadata,
        spec,
        more,
    )


def many(item: bytes, size: int) -> bytes:
    """Return a JSON list of about `size` bytes that repeats the item."""
    return b"[" + b",".join([item] * (size // (len(item) + 1))) + b"]"


def members(form: bytes, size: int) -> bytes:
    """Return a JSON object of about `size` bytes; `form`, such as `"%x":1`, makes a member of its number."""
    return b"{" + b",".join(form % number for number in range(size // (len(form) + 4))) + b"}"


def deep(size: int) -> bytes:
    """Return a JSON list of about `size` bytes, with objects that are nested 400 deep."""
    return many(b'{"a":' * 400 + b"1" + b"}" * 400, size)


def hostile_reviews(scale: float = 1.0) -> Mapping[str, tuple[str, bytes]]:
    """Return the path and the body of each review, by its description; `scale` multiplies the sizes.

    Some reviews have the largest allowed size, and the webhook refuses them as too expensive. The others are
    just below a limit.
    """
    mb, large = int(_MB * scale), int(2.9 * _MB * scale)
    just = int(140_000 * scale)
    admissions = {
        "2 MB of empty lists": b'{"a":%b}' % many(b"[]", 2 * mb),
        "most empty lists": pet(spec=b'"a":%b,' % many(b"[]", just)),
        "most objects of one member": pet(spec=b'"a":%b,' % many(b'{"a":0}', just * 5 // 2)),
        "most lists in lists": pet(spec=b'"a":%b,' % deep(just * 5 // 2)),
        "most names": pet(spec=b'"a":%b,' % members(b'"%x":1', just * 5)),
        "most members beside the one that changes": pet(spec=members(b'"%x":1', just * 5)[1:-1] + b","),
        "most numbers": pet(spec=b'"a":%b,' % many(b"0", just * 3 // 2)),
        "hard numbers": pet(
            spec=b'"a":%b,' % many(b"0." + b"0" * 300 + b"2225073858507201136057" * 12, large)
        ),
        "a number of a million digits": pet(spec=b'"a":%b,' % (b"1" * mb)),
        "a fraction of a million digits": pet(spec=b'"a":0.%b,' % (b"1" * mb)),
        "a text of escapes": pet(spec=b'"a":"%b",' % (b"\\ud83d\\ude00" * (large // 12))),
        "a text of newlines": pet(spec=b'"a":"%b",' % (b"\\n" * (large // 2))),
        "a text of brackets": pet(spec=b'"a":"%b",' % (b"[],{}," * (large // 6))),
        "a text of quotes": pet(spec=b'"a":"%b",' % (b'\\",' * (large // 3))),
        "one name, again and again": pet(spec=b'"a":{%b"b":1},' % (b'"a":1,' * (just // 2))),
        "nothing but space": pet(spec=b'"a":[%b],' % (b" " * large)),
        "owners that are none": pet(metadata=b'{"ownerReferences":%b}' % many(b"{}", just)),
        "owners": pet(
            metadata=b'{"ownerReferences":%b}'
            % many(b'{"apiVersion":"v1","kind":"A","name":"a","uid":"u"}', just * 6)
        ),
        "labels that are none": pet(metadata=b'{"labels":%b}' % members(b'"%x":1', just * 5)),
        "labels": pet(metadata=b'{"labels":%b}' % members(b'"%x":""', just * 5)),
        "finalizers that are none": pet(metadata=b'{"finalizers":%b}' % many(b"0", just)),
        "managed fields": pet(metadata=b'{"managedFields":%b}' % members(b'"f:%x":{}', large)),
        "a name without end": pet(metadata=b'{"name":"%b"}' % (b"x" * large)),
    }
    other = pet(spec=b'"b":1,"a":%b,' % many(b'{"b":0,"a":0}', just * 2))
    same = pet(spec=b'"a":%b,"b":1,' % many(b'{"a":0,"b":0}', just * 2))
    lists = many(b"[]", large).replace(b'"', b'\\"')
    note = b'{"annotations":{"petstore.example.com/v1beta1":"{\\"owner\\":%b}"}}' % lists
    tiny = b'{"apiVersion":"%b/v1alpha1","kind":"Pet"}' % _GROUP
    mutations = {
        "groups of a user": admission(pet(), user=b'{"groups":%b}' % many(b'"a"', 6 * mb)),
        "most groups of a user": admission(pet(), user=b'{"groups":%b}' % many(b'"a"', just * 6)),
        "extra of a user": admission(pet(), user=b'{"extra":%b}' % members(b'"%x":[]', just * 4)),
        "an operation without end": admission(pet()).replace(b"CREATE", b"C" * large),
        "a uid without end": admission(pet()).replace(b'"u"', b'"' + b"u" * large + b'"', 1),
    }
    validations = {"equal, in another order": admission(same, other)}
    conversions = {
        "brackets, and then a text without end": b"[" * 1_200 + b'"' + b'\\"' * (large // 2),
        "4 MB of empty lists": many(b"[]", 4 * mb),
        "most objects that are none": many(b"0", just * 7),
        "most objects that say their version": many(b'{"apiVersion":""}', 2 * mb),
        "too many objects, said otherwise": many(b'{"\\u0061piVersion":""}', 11 * mb),
        "most objects that are none, and a long one": many(b"0", mb)[:-1] + b',"%b"]' % (b"x" * 10 * mb),
        "11 MB of members in one object": b"[%b" % tiny[:-1] + b',"a":%b}]' % many(b"000000000", 11 * mb),
        "most objects": many(tiny, 5 * mb),
        "space": b"[%b]" % (b" " * 11 * mb),
        "a text without end": b'["%b"]' % (b"\\n" * (11 * mb // 2)),
        "a note with lists": b"[%b]" % pet(version=b"v1alpha1", metadata=note),
        "500 large objects": many(pet(version=b"v1alpha1", spec=b'"a":"%b",' % (b"x" * 30_000)), 11 * mb),
    }
    for name, content in admissions.items():
        mutations[name] = admission(content)
        validations[name] = admission(content, content)
        conversions[name] = b"[%b]" % content.replace(b"v1beta1", b"v1alpha1", 1)
    return {
        **{f"mutate: {name}": (MUTATE, review) for name, review in mutations.items()},
        **{f"validate: {name}": (VALIDATE, review) for name, review in validations.items()},
        **{f"convert: {name}": (CONVERT, conversion(objects)) for name, objects in conversions.items()},
    }
