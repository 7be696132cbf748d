"""The options that `watch` and `get` share, and the checks of their combinations.

An invalid combination raises typer.BadParameter, which names the option.
"""

from __future__ import annotations

from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pyinformer.cli._value_completion import complete_context, complete_resource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyinformer.cli.objects import ServerAccess, WatchTarget


class WatchForm(StrEnum):
    """The output formats of `watch`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


class GetForm(StrEnum):
    """The output formats of `get`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class ReportForm(StrEnum):
    """The output formats of `doctor`."""

    TEXT = "text"
    JSON = "json"


DOCTOR_EPILOG: Final = (
    "Exit status: 0 no trouble was found, 1 trouble was found, 2 a check could not be made, or"
    " wrong usage; 129, 130, 141, 143 as for the other commands."
)

TOP_EPILOG: Final = (
    "Exit status: 0 after q; without a terminal 0 if every program answered, otherwise 2; 2 wrong"
    " usage; 129, 130, 141, 143 as for the other commands."
)

Resource = Annotated[
    str,
    typer.Argument(
        metavar="RESOURCE",
        help="As for kubectl: pods, pod, po, deploy, deployments.apps, certificates.v1.group;"
        " or in full, without discovery: v1/pods, apps/v1/deployments.",
        autocompletion=complete_resource,
    ),
]
Namespaces = Annotated[
    list[str] | None,
    typer.Option("--namespace", "-n", help="A namespace, or several with commas; repeatable."),
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
Labels = Annotated[
    str | None, typer.Option("--selector", "-l", help="A label selector: app=web,tier in (a,b).")
]
Fields = Annotated[
    str | None, typer.Option("--field-selector", help="A field selector: status.phase=Running.")
]
Context = Annotated[
    str | None,
    typer.Option("--context", help="A context of the kubeconfig.", autocompletion=complete_context),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="A file instead of KUBECONFIG and ~/.kube/config."),
]
Server = Annotated[
    str | None, typer.Option("--server", help="The URL of a server that needs no credentials.")
]
User = Annotated[str | None, typer.Option("--as", metavar="USER", help="Impersonate this user.")]
Groups = Annotated[
    list[str] | None, typer.Option("--as-group", metavar="GROUP", help="Impersonate these groups.")
]
MetadataOnly = Annotated[
    bool,
    typer.Option("--metadata-only", help="Request only metadata: a fraction of the memory."),
]
ShowSecrets = Annotated[
    bool,
    typer.Option(
        "--show-secrets", help="Print the values of Secrets and last-applied annotations."
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print logs on stderr.")]


def access_of(
    kubeconfig: Path | None,
    context: str | None,
    server: str | None,
    user: str | None,
    groups: list[str] | None,
) -> ServerAccess:
    """Check the options of the connection, and return them."""
    from pyinformer.cli.objects import ServerAccess

    if server is not None and (kubeconfig is not None or context is not None):
        reason = "cannot be combined with --kubeconfig or --context"
        raise typer.BadParameter(reason, param_hint="--server")
    if kubeconfig is not None and str(kubeconfig).startswith(("http:/", "https:/")):
        raise typer.BadParameter("must be a file; --server takes a URL", param_hint="--kubeconfig")
    for option, names in (("--as", [] if user is None else [user]), ("--as-group", groups or [])):
        if not all(name and name.isprintable() for name in names):
            raise typer.BadParameter("must be a name of printable characters", param_hint=option)
    if groups and not user:
        raise typer.BadParameter("requires --as", param_hint="--as-group")
    return ServerAccess(
        kubeconfig=kubeconfig,
        context=context,
        server=server,
        user=user,
        groups=tuple(groups or ()),
    )


def target_of(
    resource: str,
    *,
    namespaces: list[str] | None,
    all_namespaces: bool,
    selector: str | None,
    field_selector: str | None,
    metadata_only: bool,
) -> WatchTarget:
    """Check the options that select objects, and return them."""
    from pyinformer.cli.objects import WatchTarget
    from pyinformer.objects import FieldSelector, LabelSelector

    with _naming("--selector"):
        LabelSelector.parse(selector)
    with _naming("--field-selector"):
        FieldSelector.parse(field_selector)
    return WatchTarget(
        resource=resource,
        namespaces=namespaces_of(namespaces, all_namespaces=all_namespaces),
        all_namespaces=all_namespaces,
        label_selector=selector,
        field_selector=field_selector,
        metadata_only=metadata_only,
    )


def namespaces_of(namespaces: list[str] | None, *, all_namespaces: bool) -> tuple[str, ...]:
    """Check the options that select namespaces, and return their names; empty for none."""
    names = [name.strip() for given in namespaces or () for name in given.split(",")]
    if not all(names):
        raise typer.BadParameter("must not contain an empty name", param_hint="--namespace")
    if names and all_namespaces:
        raise typer.BadParameter(
            "cannot be combined with --namespace", param_hint="--all-namespaces"
        )
    check_namespaces(names)
    return tuple(names)


def check_namespaces(names: Sequence[str]) -> None:
    """Refuse names that no namespace can have: a server has an empty list for each of them."""
    from pyinformer.cache.informer import checked_namespaces
    from pyinformer.errors import InvalidArgumentError

    for name in names:
        try:
            checked_namespaces([name])
        except InvalidArgumentError:
            reason = f"{name!r} cannot be the name of a namespace"
            raise typer.BadParameter(reason, param_hint="--namespace") from None


@contextmanager
def _naming(option: str) -> Iterator[None]:
    """Let an error about an argument name the option that was typed."""
    from pyinformer.errors import InvalidArgumentError

    try:
        yield
    except InvalidArgumentError as error:
        raise typer.BadParameter(error.reason, param_hint=option) from None


def names_programs(targets: list[str]) -> bool:
    """Return whether the arguments of `doctor` are URLs; they must not be mixed with resources."""
    urls = [one for one in targets if "://" in one]
    if urls and len(urls) < len(targets):
        reason = "must be resources of a server, or URLs of programs, not both"
        raise typer.BadParameter(reason, param_hint="RESOURCE|URL")
    if not urls and (bare := next((one for one in targets if ":" in one), "")):
        reason = f"a URL begins with a scheme, such as http://{bare}"
        raise typer.BadParameter(reason, param_hint="RESOURCE|URL")
    return bool(urls)


def health_urls(urls: list[str]) -> list[str]:
    """Check the URLs of health endpoints, and return them without their paths, each once."""
    from pyinformer.cli.doctor import base_url
    from pyinformer.errors import InvalidArgumentError

    try:
        return list(dict.fromkeys(map(base_url, urls)))
    except InvalidArgumentError as error:
        raise typer.BadParameter(error.reason, param_hint="URL") from None


def path_and_value(index: str) -> tuple[str, str]:
    """Split `spec.nodeName=node-1`; a part of the path that contains `=` must be quoted."""
    from pyinformer.objects import parse_path

    quoted = ""
    for place, one in enumerate(index):
        if one in {"'", '"'} and quoted in {"", one}:
            quoted = "" if quoted else one
        elif one == "=" and not quoted and place:
            path, value = index[:place], index[place + 1 :]
            with _naming("--index"):
                parse_path(path)
            return path, value
    raise typer.BadParameter(
        f"must be PATH=VALUE, such as spec.nodeName=node-1, got {index!r}", param_hint="--index"
    )
