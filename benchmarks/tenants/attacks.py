"""Objects that a tenant can write to make a follower keep memory, as lines of a watch.

Each is another text at every update, so that nothing can be shared. The server sends the lines as
they are, stores nothing, and so keeps nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Attack = Callable[[int, int], list[tuple[str, str, str]]]
"""Takes the number of an update and a size in bytes; returns type, name and JSON without its end.

The text ends within `metadata`, so that the sender can add the version.
"""


def _object(name: str, fields: str, behind: str = "") -> tuple[str, str]:
    head = '{"kind":"ConfigMap","apiVersion":"v1","metadata":{'
    head += f'"name":"{name}","namespace":"default","uid":"{name}",{fields}'
    return head, f"}}{behind}}}"


def labels(number: int, size: int) -> list[tuple[str, str, str]]:
    """One object with labels of so many bytes, all of them new."""
    count = max(1, size // 32)
    text = ",".join(f'"k{one:06}-{number:08}":"v{one:09}"' for one in range(count))
    return [("MODIFIED", *_object("labels", f'"labels":{{{text}}}'))]


def owners(number: int, size: int) -> list[tuple[str, str, str]]:
    """One object with a list of owners of so many bytes."""
    count = max(1, size // 100)
    one = '{{"apiVersion":"v1","kind":"ConfigMap","name":"o{:08}-{:08}","uid":"u{:08}-{:08}"}}'
    text = ",".join(one.format(place, number, place, number) for place in range(count))
    return [("MODIFIED", *_object("owners", f'"ownerReferences":[{text}]'))]


def name(number: int, size: int) -> list[tuple[str, str, str]]:
    """Objects with names of so many bytes that come and go."""
    long = f"{number:08}" + "n" * size
    return [(kind, *_object(long, '"generation":1')) for kind in ("ADDED", "DELETED")]


def nested(number: int, size: int) -> list[tuple[str, str, str]]:
    """One object that is nested deeply, as are its managedFields, with a body of so many bytes."""
    value = '{"f:a":' * 9_000 + "1" + "}" * 9_000
    fields = f'"managedFields":[{{"fieldsV1":{value}}}],"labels":{{"n":"{number}"}}'
    behind = f',"data":{{"x":{value},"y":"{number:08}{"y" * size}"}}'
    return [("MODIFIED", *_object("nested", fields, behind))]


def owner_name(number: int, size: int) -> list[tuple[str, str, str]]:
    """One object with an owner whose name takes so many bytes, each escaped."""
    escaped = "\\u003c" * (size // 6)
    owner = f'{{"apiVersion":"v1","kind":"X","name":"{number}{escaped}","uid":"u"}}'
    return [("MODIFIED", *_object("owner-name", f'"ownerReferences":[{owner}]'))]


def unnamed(number: int, size: int) -> list[tuple[str, str, str]]:
    """Objects that cannot be identified."""
    return [("MODIFIED", f'{{"number":{number},"x":"{"x" * size}","metadata":{{"uid":"u"', "}}")]


ATTACKS: Final[dict[str, Attack]] = {
    "labels": labels,
    "owners": owners,
    "names": name,
    "nested": nested,
    "owner name": owner_name,
    "unnamed": unnamed,
}
