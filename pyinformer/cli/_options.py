"""The options that `watch` and `get` share, as typer sees them, and what they mean together.

What enters is what was typed; what leaves are records of it, or an error that names the option.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pyinformer.cli._completion import complete_context, complete_resource

if TYPE_CHECKING:
    from pyinformer.cli.objects import Access, Target


class WatchForm(StrEnum):
    """How `watch` shows objects."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


class GetForm(StrEnum):
    """How `get` shows objects."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    NAME = "name"


Resource = Annotated[
    str,
    typer.Argument(
        metavar="RESOURCE",
        help="As kubectl takes it: pods, pod, po, deploy, deployments.apps, certificates.v1.group;"
        " or in full, v1/pods, apps/v1/deployments, which needs no right to discover.",
        autocompletion=complete_resource,
    ),
]
Namespaces = Annotated[
    list[str] | None,
    typer.Option("--namespace", "-n", help="A namespace, or several with commas, or repeated."),
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")]
Labels = Annotated[
    str | None, typer.Option("--selector", "-l", help="A label selector: app=web,tier in (a,b).")
]
Fields = Annotated[
    str | None, typer.Option("--field-selector", help="A field selector: status.phase=Running.")
]
Context = Annotated[
    str | None,
    typer.Option("--context", help="In the kubeconfig.", autocompletion=complete_context),
]
Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", help="Instead of KUBECONFIG and ~/.kube/config.")
]
Server = Annotated[
    str | None, typer.Option("--server", help="URL of a server that asks for no credentials.")
]
User = Annotated[str | None, typer.Option("--as", metavar="USER", help="Act as this user.")]
Groups = Annotated[
    list[str] | None, typer.Option("--as-group", metavar="GROUP", help="And of these groups.")
]
MetadataOnly = Annotated[
    bool,
    typer.Option("--metadata-only", help="Load metadata and nothing else: a fraction of memory."),
]
ShowSecrets = Annotated[
    bool,
    typer.Option(
        "--show-secrets", help="Show the values of Secrets and last-applied annotations, too."
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show logs on stderr.")]


def access_of(
    kubeconfig: Path | None,
    context: str | None,
    server: str | None,
    user: str | None,
    groups: list[str] | None,
) -> Access:
    """Check how the cluster is to be reached, as the options have it."""
    from pyinformer.cli.objects import Access

    if server is not None and (kubeconfig is not None or context is not None):
        reason = "it stands instead of --kubeconfig and --context"
        raise typer.BadParameter(reason, param_hint="--server")
    if groups and not user:
        raise typer.BadParameter("it needs --as, too", param_hint="--as-group")
    return Access(
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
) -> Target:
    """Check what is to be followed, as the options have it."""
    from pyinformer.cli.objects import Target

    names = [name.strip() for given in namespaces or () for name in given.split(",")]
    if not all(names):
        raise typer.BadParameter("a name between commas is empty", param_hint="--namespace")
    if names and all_namespaces:
        raise typer.BadParameter("it goes without --namespace", param_hint="--all-namespaces")
    return Target(
        resource=resource,
        namespaces=tuple(names),
        all_namespaces=all_namespaces,
        label_selector=selector,
        field_selector=field_selector,
        metadata_only=metadata_only,
    )


def path_and_value(index: str) -> tuple[str, str]:
    """Divide `spec.nodeName=node-1`; names that hold a `=` stand in quotes."""
    quoted = ""
    for place, one in enumerate(index):
        if one in {"'", '"'} and quoted in {"", one}:
            quoted = "" if quoted else one
        elif one == "=" and not quoted and place:
            return index[:place], index[place + 1 :]
    raise typer.BadParameter(
        f"{index!r} is no PATH=VALUE, such as spec.nodeName=node-1", param_hint="--index"
    )
