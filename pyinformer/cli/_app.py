"""The commands and their options, as typer sees them; each loads what it needs when it runs."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn

import typer

_HELP = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="pyinformer",
    help="client-go's informers for asyncio.",
    context_settings=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # a traceback of ours should look like any other
)


def _tell_version(is_asked: bool) -> None:  # noqa: FBT001 - typer gives it by position
    if is_asked:
        print(f"pyinformer {version('pyinformer')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Say which it is."),
    ] = False,
) -> None:
    """client-go's informers for asyncio."""


def run() -> NoReturn:
    """Run the command that the arguments name, and end the process with its status."""
    app()
    raise SystemExit(0)


@app.command()
def demo(
    *,
    seconds: Annotated[float, typer.Option(min=1.0, max=3600.0, help="How long to watch.")] = 20.0,
    seed: Annotated[int, typer.Option(help="Of everything that happens in the cluster.")] = 0,
) -> None:
    """Watch informers follow a small living cluster, then compare them with the server.

    Exit status 0: in the end every cache and every mirror equal what the server lists.
    """
    from pyinformer.cli._demo import demo as run_demo

    raise typer.Exit(run_demo(seconds=seconds, seed=seed, output=sys.stdout))


@app.command()
def serve(
    *,
    real: Annotated[
        bool, typer.Option("--real", help="Run etcd and kube-apiserver, not the embedded server.")
    ] = False,
    build: Annotated[
        bool, typer.Option("--build", help="With --real: build them if there are none; minutes.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="On 127.0.0.1; 0 is any.")] = 0,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Where to write the kubeconfig; a new file.")
    ] = None,
) -> None:
    """Run an API server to play with until Ctrl-C, and write a kubeconfig for it."""
    from pyinformer.cli._serve import serve as run_serve

    if build and not real:
        raise typer.BadParameter(
            "it needs --real: the embedded server is not built", param_hint="--build"
        )
    raise typer.Exit(
        run_serve(real=real, build=build, port=port, kubeconfig_path=kubeconfig, output=sys.stdout)
    )


@app.command()
def scenes(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Which to play.")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Play all of them.")] = False,
    real: Annotated[
        bool, typer.Option("--real", help="On etcd and kube-apiserver, not the embedded server.")
    ] = False,
) -> None:
    """List, or play, the failures that pyinformer was founded on: a plain informer beside ours.

    Exit status 0: the plain informer failed as it did then, and ours did not.
    """
    from pyinformer.cli.scenes._catalogue import SCENES
    from pyinformer.cli.scenes._run import find, list_scenes, play

    if every and names:
        raise typer.BadParameter("it plays every scene: leave out the names", param_hint="--all")
    if not names and not every:
        if real:
            raise typer.BadParameter("it needs a NAME, or --all", param_hint="--real")
        list_scenes(sys.stdout)
        return
    try:
        chosen = SCENES if every else find(names or ())
    except KeyError as error:
        raise typer.BadParameter(f"there is no scene {error}", param_hint="NAME") from None
    raise typer.Exit(play(chosen, real=real, output=sys.stdout))


@app.command()
def crd(
    targets: Annotated[
        list[str], typer.Argument(metavar="MODULE:NAME...", help="A model, or an Operator.")
    ],
) -> None:
    """Print the CustomResourceDefinitions of models as YAML, for `kubectl apply -f -`.

    A model is a class that `pyinformer.custom_resource` decorates, or that an Operator reconciles.
    """
    from pyinformer.cli._crd import crd as print_definitions

    raise typer.Exit(print_definitions(targets, output=sys.stdout, errors=sys.stderr))
