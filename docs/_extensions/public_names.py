"""Which public names the reference shows, and on which page: one page for each public namespace.

A name is on the page of the first namespace that exports it, and errors are on one page. Pages are
made from `__all__` and not written by hand, so no public name is left out. Needs no Sphinx, so that
the tests can use it too.
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

# The public namespaces and the titles of their pages; the first that exports a name shows it.
NAMESPACES = {
    "pyinformer": "pyinformer",
    "pyinformer.errors": "pyinformer.errors",
    "pyinformer.objects": "pyinformer.objects: objects, keys, selectors, changes",
    "pyinformer.client": "pyinformer.client: connections, requests and their options",
    "pyinformer.cache": "pyinformer.cache: reflectors, queues of deltas, stores, informers",
    "pyinformer.workqueue": "pyinformer.workqueue: work queues and rate limiters",
    "pyinformer.controller": "pyinformer.controller: sources, predicates, finalizers, owners",
    "pyinformer.leaderelection": "pyinformer.leaderelection: one leader of several replicas",
    "pyinformer.sharding": "pyinformer.sharding: replicas that share the keys",
    "pyinformer.fleet": "pyinformer.fleet: clusters that come and go",
    "pyinformer.admission": "pyinformer.admission: webhooks",
    "pyinformer.policies": "pyinformer.policies: admission policies from code",
    "pyinformer.readiness": "pyinformer.readiness: whether an object is ready",
    "pyinformer.children": "pyinformer.children: what an object owns, as one set",
    "pyinformer.operator": "pyinformer.operator: custom resources, what it owns, probes",
    "pyinformer.blocking": "pyinformer.blocking: the blocking face",
    "pyinformer.kopf": "pyinformer.kopf: kopf on pyinformer",
    "pyinformer.telemetry": "pyinformer.telemetry: metrics and tracing",
    "pyinformer.telemetry.prometheus": "pyinformer.telemetry.prometheus: metrics for Prometheus",
    "pyinformer.telemetry.opentelemetry": "pyinformer.telemetry.opentelemetry: OpenTelemetry",
    "pyinformer.testing": "pyinformer.testing: the test kit",
}
ERRORS = "pyinformer.errors"

# Folders hand these to each other; they stand in signatures that no user's program calls.
INTERNAL = {
    "pyinformer.cache.audit.SharedValue",
    "pyinformer.cache.recording.Header",
    "pyinformer.cache.reflector.ListingSlot",
    "pyinformer.cache.reflector.ReflectorTap",
    "pyinformer.cache.informer.Receiver",
    "pyinformer.controller.sources.Enqueue",
    "pyinformer.controller.sources.RequestId",
    "pyinformer.leaderelection.LeaseGroup",
    "pyinformer.controller.sources.SourceInformer",
    "pyinformer.cache.store.Overlay",
    "pyinformer.cache.store.OverlayEntries",
    "pyinformer.cache.store.Readiness",
    "pyinformer._runtime.tasks.Turn",
    "pyinformer.client.transport.Body",
    "pyinformer.client.transport.ConnectionProtocol",
    "pyinformer.client.transport.WriteGuard",
}

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
    made = {
        _page_name(namespace): _page(title, _words(namespace), entries(namespace))
        for namespace, title in NAMESPACES.items()
    }
    return {"index": _index(list(made)), **made}


def _page_name(namespace: str) -> str:
    return namespace.rpartition(".")[2]


@cache
def entries(namespace: str) -> list[Entry]:
    """Return what the page of a namespace shows, in the order of the alphabet."""
    found = [_entry(path) for path in paths().values()]
    homes = {one.path: ERRORS if one.is_error else one.path.rpartition(".")[0] for one in found}
    shown = [one for one in found if homes[one.path] == namespace]
    return sorted(shown, key=lambda one: one.path.casefold())


@cache
def paths() -> dict[str, str]:
    """Return the path of each public name: that of the first namespace which exports it.

    A blocking twin has the name of another object, and its path is its key.
    """
    found: dict[str, str] = {}
    for namespace in NAMESPACES:
        module = importlib.import_module(namespace)
        for name in module.__all__:
            path = f"{namespace}.{name}"
            first = found.setdefault(name, path)
            if find(first) is not getattr(module, name):
                found[path] = path
    return found


def find(path: str) -> object:
    """Return what stands at a dotted path."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _entry(path: str) -> Entry:
    found = find(path)
    if inspect.isclass(found) and typing.get_origin(found) is None:
        is_error = issubclass(found, BaseException)
        return Entry(path=path, is_error=is_error, directive="autoclass")
    kind = "autofunction" if inspect.isroutine(found) else "py:data"
    return Entry(path=path, is_error=False, directive=kind)


def _words(namespace: str) -> str:
    """Return the docstring of a namespace."""
    return _literal(inspect.getdoc(importlib.import_module(namespace)) or "")


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
    found = [find(path) for path in paths().values()]
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
        "Made from the docstrings of the code, one page for each public namespace.\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n{listed}"
    )
