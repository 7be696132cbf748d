"""Write the page of all options from signatures and docstrings: `make options`.

A public function contributes its parameters and the entries of its `Args:` section, a class of
settings its fields and the text below each. A test compares the committed page with these, so an
option that is added or changed cannot be missing. Needs no Sphinx.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import itertools
import re
import textwrap
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple, is_typeddict

from pyinformer.cache import InformerSettings

PAGE: Final = Path(__file__).resolve().parents[1] / "reference/options.md"
SECTIONS: Final[dict[str, tuple[str, ...]]] = {
    "Connect": (
        "pyinformer.connect",
        "pyinformer.client.ConnectionOptions",
        "pyinformer.client.WriteOptions",
        "pyinformer.ClusterPool",
        "pyinformer.run_in_thread",
    ),
    "Read and write": tuple(
        f"pyinformer.Cluster.{name}"
        for name in (
            *(
                "get",
                "list",
                "logs",
                "exec",
                "create",
                "replace",
                "patch",
                "apply",
                "apply_if_changed",
            ),
            *("status", "delete", "delete_collection", "request"),
        )
    ),
    "Informers": (
        "pyinformer.SharedInformerFactory",
        "pyinformer.SharedInformerFactory.informer",
        "pyinformer.cache.InformerOptions",
        "pyinformer.cache.KeepingOptions",
        "pyinformer.SharedInformer.add_event_handler",
        "pyinformer.SharedInformer.events",
        "pyinformer.cache.ReflectorOptions",
        "pyinformer.cache.MassDeletePolicy",
        "pyinformer.MutationDetector",
    ),
    "Operators": (
        "pyinformer.Operator",
        "pyinformer.Operator.reconcile",
        "pyinformer.Operator.every",
        "pyinformer.Operator.daemon",
        "pyinformer.Operator.follow",
        "pyinformer.Operator.run",
        "pyinformer.admission.Webhooks",
        "pyinformer.admission.HookOptions",
        "pyinformer.policies.Policy",
        "pyinformer.policies.MutatingPolicy",
        "pyinformer.operator.Owns",
        "pyinformer.operator.Watches",
    ),
    "Controllers": (
        "pyinformer.Controller",
        "pyinformer.Fleet",
        "pyinformer.ControllerOptions",
        "pyinformer.controller.SourceOptions",
    ),
    "Work queues": (
        "pyinformer.workqueue.Queue",
        "pyinformer.workqueue.PriorityQueue",
        "pyinformer.workqueue.ItemExponentialFailureRateLimiter",
        "pyinformer.workqueue.ItemFastSlowRateLimiter",
        "pyinformer.workqueue.BucketRateLimiter",
    ),
    "Leader election": (
        "pyinformer.LeaderElection",
        "pyinformer.leaderelection.LeaderElectionOptions",
    ),
    "Sharing": ("pyinformer.Buckets", "pyinformer.Shard"),
    "Health": ("pyinformer.operator.HealthOptions",),
    "kopf": ("pyinformer.kopf.install",),
    "Test servers": ("pyinformer.testing.APIServer",),
}
ENVIRONMENT: Final[dict[str, str]] = {
    "KUBECONFIG": "the kubeconfigs, joined as for kubectl; `connect(kubeconfig=...)` comes first",
    "HOME": "where `.kube/config` is looked for if `KUBECONFIG` is not set",
    "KUBERNETES_SERVICE_HOST": "set in every pod: the API server of the pod's cluster",
    "KUBERNETES_SERVICE_PORT": "its port",
    "HTTPS_PROXY": "the proxy of requests, as for kubectl; `connect(trust_env=False)` ignores it",
    "HTTP_PROXY": "the same, for servers without TLS",
    "NO_PROXY": "the hosts, suffixes and address ranges that are reached without a proxy",
    "POD_NAME": "the identity of a replica in leader election, if none is given",
    "PATH": "where exec plug-ins of kubeconfigs are looked for",
    "PYINFORMER_KOPF": "`off` runs kopf without pyinformer, despite `install()`",
    "PYINFORMER_UVLOOP": "`off` keeps `Operator.run` and the command on asyncio's own event loop",
    "SSLKEYLOGFILE": "a file to which the keys of TLS connections are written, for Wireshark",
    "NO_COLOR": "the command line prints without colors",
    "CI": "the same",
    "TERM": "`dumb` does the same",
    "KUBEBUILDER_ASSETS": "the folder of a kube-apiserver and etcd for tests",
    "PYINFORMER_BUILD_KUBE_APISERVER": (
        "`1` builds the kube-apiserver for tests, as `pytest --pyinformer-build-kube-apiserver`"
    ),
    "XDG_CACHE_HOME": "where that build is kept; `~/.cache` if it is not set",
}
_HEAD: Final = """\
<!-- written by `make options` from signatures and docstrings; changes by hand are overwritten -->
# Every option

The options of connections, of reads and writes, of informers, operators, controllers, work queues,
leader election and test servers, with their defaults, and all environment variables. Functions that
are not here, such as the predicates of `pyinformer.controller`, are in the [reference of public
names](index.md), which also has the types, the results and the errors of all. An option without a
default must be given. All durations are seconds.
"""
_ARGUMENT: Final = re.compile(r"^ {4}(\**\w+): ?(.*)$")


class Option(NamedTuple):
    """One parameter or field."""

    name: str
    """How it is passed."""

    default: str
    """Its default as it is shown; empty if it must be given."""

    meaning: str
    """What its docstring says, in one line."""


def page() -> str:
    """Return the page as it should be."""
    parts = [_HEAD]
    for title, paths in SECTIONS.items():
        parts.append(f"\n## {title}\n")
        parts += [_section(path) for path in paths]
    parts.append("\n## Environment variables\n\n| variable | what it does |\n|---|---|\n")
    parts += [f"| `{name}` | {_cell(meaning)} |\n" for name, meaning in ENVIRONMENT.items()]
    return "".join(parts)


def options_of(path: str) -> list[Option]:
    """Return the options of a function, or of the class of settings at a dotted path."""
    found = find(path)
    if is_typeddict(found):
        return _options_of_record(found)
    meanings = _fields(found) if dataclasses.is_dataclass(found) else _arguments(found)
    parameters = inspect.signature(found).parameters.values()  # type: ignore[arg-type]
    return [
        Option(one.name, _default(one), meanings.get(one.name, ""))
        for one in parameters
        if one.name != "self" and one.kind is not inspect.Parameter.VAR_KEYWORD
    ]


def _options_of_record(record: object) -> list[Option]:
    """Return the options that calls take by a record; those of an informer are all settings."""
    settings = {one.name: repr(one.default) for one in dataclasses.fields(InformerSettings)}
    settings["audit_period_seconds"] = "None"  # of a factory, which has a default of its own
    return [
        Option(name, f"`{settings.get(name, 'None')}`", meaning)
        for name, meaning in _fields(record).items()
    ]


def _section(path: str) -> str:
    found, name = find(path), path.removeprefix("pyinformer.")
    head = (inspect.getdoc(found) or "").partition("\n")[0]
    rows = "".join(
        f"| `{one.name}` | {_cell(one.default)} | {_cell(one.meaning)} |\n"
        for one in options_of(path)
    )
    return f"\n### {name}\n\n{head}\n\n| option | default | meaning |\n|---|---|---|\n{rows}"


def find(path: str) -> object:
    """Return what a dotted path names: a member of a module, or of a class in it."""
    parts = path.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise LookupError(path)


def _default(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return ""
    text = str(default) if isinstance(default, Enum) else repr(default)
    if text == "<factory>":
        return "a new one"
    if text.startswith("<"):  # an object: the no-op metrics
        text = f"{type(default).__name__.lstrip('_')}()"
    return f"`{text}`"


def _arguments(found: object) -> dict[str, str]:
    """Return the entries of the `Args:` section of a docstring."""
    _, _, section = (inspect.getdoc(found) or "").partition("\nArgs:\n")
    meanings: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if line and not line.startswith(" "):
            break
        if entry := _ARGUMENT.match(line):
            name, text = entry[1], entry[2]
            meanings[name] = text
        elif name:
            meanings[name] += f" {line.strip()}"
    return meanings


def _fields(found: object) -> dict[str, str]:
    """Return the text below each field of a class, bases included."""
    meanings: dict[str, str] = {}
    for base in reversed(inspect.getmro(found)):  # type: ignore[arg-type]
        if not base.__module__.startswith("pyinformer."):
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        lines = body.body if isinstance(body, ast.ClassDef) else []
        for field, text in itertools.pairwise(lines):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(said))),
                ):
                    meanings[name] = inspect.cleandoc(said)
    return meanings


def _cell(text: str) -> str:
    """Return a text for one cell of a table: one line, without column separators."""
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
