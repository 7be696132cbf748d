"""Which public names the reference shows, and on which page: one page for each station.

What enters are the `__all__` of the package and of its stations, what leaves is the text of each
page in reStructuredText. Every name that `pyinformer` exports is on exactly one page, since pages
are made from `__all__` and not written by hand. Needs no Sphinx, so that the tests can ask too.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import textwrap
import typing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyinformer

# In the order in which an object passes them; the first that exports a name has it.
STATIONS = {
    "apimachinery": "Objects, keys, selectors, events",
    "transport": "Configuration and the wire",
    "cluster": "Clusters: connect, discover, read and write",
    "reflector": "The reflector: keeping in step with a server",
    "deltas": "Queues of deltas",
    "store": "Indexers and listers",
    "audit": "Audits and the mutation detector",
    "informer": "Informers, factories and handlers",
    "workqueue": "Work queues and rate limiters",
    "sources": "Sources of requests",
    "controllerutil": "Conditions, finalizers, owners, Events",
    "controller": "Controllers",
    "operator": "Operators, custom resources, health",
    "leaderelection": "Leader election",
    "sharding": "Sharding",
    "adapters": "Adapters to other packages",
    "blocking": "The blocking face",
    "testing": "The test kit",
    "metrics": "Metrics",
}

# Other names of a station that signatures of public names mention: its users meet them, too.
MENTIONED = {
    "apimachinery": [
        "Absent",
        "JSONValue",
        "Labels",
        "OwnerReference",
        "Transform",
        "VersionOrder",
    ],
    "audit": [
        "AuditRepair",
        "AuditVerdict",
        "Difference",
        "Mismatches",
        "MutatedPath",
        "MutationMode",
        "MutationStatistics",
        "ValueSource",
    ],
    "cluster": ["Body", "Discovery", "Upserted", "WriteStatistics"],
    "deltas": ["Delta", "DeltaType", "Deltas", "KnownObjects", "QueueStatistics"],
    "informer": ["EventStream", "ExpectationState", "PendingExpectations", "WatchdogStatistics"],
    "metrics": ["Metrics"],
    "reflector": [
        "Admission",
        "AdmissionStatistics",
        "GuardStatistics",
        "Lineage",
        "ReflectorStatus",
        "Sink",
        "WatchListMemory",
    ],
    "sources": [
        "OwnedSource",
        "OwnerKind",
        "Source",
        "SourceOptions",
        "SourceStatus",
        "TimerSource",
        "WatchedSource",
    ],
    "store": [
        "DecodedObject",
        "DecodedObjects",
        "IndexFunction",
        "IndexStatistics",
        "OverlayStatistics",
    ],
    "workqueue": ["Lease", "Ordering"],
}

# Stations hand these to each other; they stand in signatures that no user's program calls.
INTERNAL = {
    "pyinformer.audit.SharedValue",
    "pyinformer.reflector.ListingSlot",
    "pyinformer.informer.Receiver",
    "pyinformer.sources.Enqueue",
    "pyinformer.sources.SourceInformer",
    "pyinformer.store.Overlay",
    "pyinformer.store.Readiness",
    "pyinformer.transport.Body",
    "pyinformer.transport.ConnectionProtocol",
}

# Folders whose own face is public as a whole, and not through the names of the package alone.
_WHOLE = ("adapters", "blocking", "testing")

_OPTIONS = "   :members:\n   :member-order: bysource\n"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of the reference."""

    path: str
    """Where a program imports it from, such as `pyinformer.Lister`."""

    is_error: bool
    """Whether it belongs on the page of the errors."""

    directive: str
    """What Sphinx makes of it: `autoclass`, `autofunction`, or for other values `py:data`."""


def pages() -> dict[str, str]:
    """Return the text of each page by its name, `index` among them."""
    found = {station: entries(station) for station in stations()}
    made = {
        station: _page(title, _words(station), [one for one in found[station] if not one.is_error])
        for station, title in STATIONS.items()
        if any(not one.is_error for one in found.get(station, ()))
    }
    errors = [one for station in stations() for one in found[station] if one.is_error]
    tree = inspect.getdoc(importlib.import_module("pyinformer.apimachinery._errors")) or ""
    made["errors"] = _page("Errors", _literal(tree), errors)
    return {"index": _index(list(made)), **made}


def stations() -> list[str]:
    """Return those of the stations that there are."""
    folders = Path(pyinformer.__file__).parent
    return [one for one in STATIONS if (folders / one / "__init__.py").exists()]


def entries(station: str) -> list[Entry]:
    """Return what the page of a station shows, in the order of the alphabet."""
    folder = importlib.import_module(f"pyinformer.{station}")
    own = [name for name in folder.__all__ if _home(name) == station]
    paths = [f"pyinformer.{name}" for name in own]
    known = {getattr(pyinformer, name) for name in own if _is_hashable(getattr(pyinformer, name))}
    others = folder.__all__ if station in _WHOLE else MENTIONED.get(station, ())
    for name in others:
        found = getattr(folder, name)
        if name not in own and not (_is_hashable(found) and found in known):
            paths.append(f"pyinformer.{station}.{name}")
    return [_entry(path) for path in sorted(paths, key=str.casefold)]


def find(path: str) -> object:
    """Return what stands at a dotted path."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _home(name: str) -> str | None:
    """Return the station whose page shows a name of the package, or None if it is not public."""
    if name not in pyinformer.__all__:
        return None
    folders = {one: importlib.import_module(f"pyinformer.{one}") for one in stations()}
    return next((one for one, folder in folders.items() if name in folder.__all__), None)


def _entry(path: str) -> Entry:
    found = find(path)
    if inspect.isclass(found) and typing.get_origin(found) is None:
        is_error = issubclass(found, BaseException)
        return Entry(path=path, is_error=is_error, directive="autoclass")
    kind = "autofunction" if inspect.isroutine(found) else "py:data"
    return Entry(path=path, is_error=False, directive=kind)


def _is_hashable(found: object) -> bool:
    return inspect.isclass(found) or inspect.isroutine(found)


def _words(station: str) -> str:
    """Return what the folder says of itself."""
    return _literal(inspect.getdoc(importlib.import_module(f"pyinformer.{station}")) or "")


def _literal(text: str) -> str:
    """Return a docstring as it was typed: drawings and lists keep their columns."""
    first, _, rest = text.partition("\n\n")
    body = "".join(f"   {line}".rstrip() + "\n" for line in rest.strip("\n").splitlines())
    return f"{first}\n" + (f"\n::\n\n{body}" if body else "")


def _page(title: str, words: str, shown: list[Entry]) -> str:
    parts = [f"{title}\n{'=' * len(title)}\n\n{words}"]
    for one in shown:
        options = _class_options(find(one.path)) if one.directive == "autoclass" else ""
        if one.directive == "py:data":
            options = "\n" + textwrap.indent(words_of_data(one.path), "   ")
        parts.append(f".. {one.directive}:: {one.path}\n{options}")
    return "\n".join(parts)


def _class_options(found: object) -> str:
    """Show what a class inherits from bases without an entry of their own, and name the others."""
    options = _OPTIONS
    bases = [one for one in getattr(found, "__mro__", ())[1:] if one is not object]
    shown = [one for one in bases if one in _shown_classes()]
    if shown:
        options += "   :show-inheritance:\n"
    if any(_is_ours(one) and one not in shown for one in bases):
        stops = [one.__name__ for one in bases if one in shown or not _is_ours(one)]
        options += f"   :inherited-members: {', '.join(['object', *stops])}\n"
    return options


def _is_ours(found: type) -> bool:
    return found.__module__.startswith("pyinformer.")


@cache
def _shown_classes() -> frozenset[object]:
    found = [find(one.path) for station in stations() for one in entries(station)]
    return frozenset(one for one in found if inspect.isclass(one))


def words_of_data(path: str) -> str:
    """Return how an alias or a value is written where it is made, and what is said below it."""
    module, _, name = path.rpartition(".")
    while home := _imported_from(module, name):
        module = home
    source = inspect.getsource(importlib.import_module(module))
    body = ast.parse(source).body
    for node, following in itertools.zip_longest(body, body[1:]):
        match node:
            case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                written = ast.unparse(value)
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value) if (
                found == name
            ):
                written = ast.unparse(value)
            case _:
                continue
        match following:
            case ast.Expr(value=ast.Constant(value=str(said))):
                words = inspect.cleandoc(said)
            case _:
                words = ""
        return f"{words}\n\n.. code-block:: python\n\n   {name} = {written}\n"
    return ""


def _imported_from(module: str, name: str) -> str | None:
    """Return the module from which another imports a name, or None if it makes it itself."""
    for node in ast.walk(ast.parse(inspect.getsource(importlib.import_module(module)))):
        if isinstance(node, ast.ImportFrom) and any(one.name == name for one in node.names):
            return node.module
    return None


def _index(names: list[str]) -> str:
    title = "Every public name"
    listed = "".join(f"   {name}\n" for name in names)
    return (
        f"{title}\n{'=' * len(title)}\n\n"
        "Made from the docstrings of the code, one page for each station that an object passes.\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n{listed}"
    )
