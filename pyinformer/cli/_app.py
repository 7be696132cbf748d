"""The commands and their options, for typer; each command imports its modules when it runs."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, final

import typer

from pyinformer._printable import Lines
from pyinformer.cli import _options
from pyinformer.cli._exit_status import CLOSED_PIPE, EPILOG, SIGNALLED, failure
from pyinformer.cli._shutdown import (
    Interruption,
    detach_closed_pipes,
    interrupt_on_signals,
    reader_has_closed,
    status_of_write_error,
    terminate_when_reader_closes,
)

if TYPE_CHECKING:
    from pyinformer.cli._shutdown import Shutdown
    from pyinformer.cli.doctor import Report
    from pyinformer.cli.output import Output

_HELP = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="pyinformer",
    help="client-go's informers for asyncio.",
    context_settings=_HELP,
    no_args_is_help=True,
    epilog=EPILOG,
    pretty_exceptions_enable=False,  # tracebacks look as in any other program
)


def _print_version(is_asked: bool) -> None:  # noqa: FBT001 - typer gives it by position
    if is_asked:
        print(f"pyinformer {version('pyinformer')}")
        raise typer.Exit


@app.callback()
def _main(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """client-go's informers for asyncio."""


def _disable_colors(environ: MutableMapping[str, str]) -> None:
    """Make libraries use colors only on a terminal, and not at all with NO_COLOR."""
    for name in ("FORCE_COLOR", "PY_COLORS"):
        environ.pop(name, None)
    if environ.get("NO_COLOR"):
        environ["TERM"] = "dumb"  # otherwise bold and dim remain


def run() -> NoReturn:
    """Run the command that the arguments name, and end the process with its status."""
    _disable_colors(os.environ)
    if isinstance(sys.stdout, io.TextIOWrapper):  # YAML is UTF-8 in every locale
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        app()
    except OSError as error:  # raised by --help and --version
        detach_closed_pipes()
        raise SystemExit(status_of_write_error(error)) from None
    raise SystemExit(0)


@contextmanager
def _exit_status_of_signals() -> Iterator[None]:
    """Turn a signal, or a closed output, into an exit status."""
    interruption = Interruption()
    try:
        with interrupt_on_signals(interruption), terminate_when_reader_closes(sys.stdout):
            yield
    except OSError as error:
        detach_closed_pipes()
        raise typer.Exit(status_of_write_error(error)) from None
    except KeyboardInterrupt:
        raise _exit_after(interruption) from None
    except BaseExceptionGroup as group:  # a second signal may interrupt a task of a task group
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        raise _exit_after(interruption) from None


def _exit_after(interruption: Interruption) -> typer.Exit:
    if reader_has_closed(sys.stdout):
        detach_closed_pipes()
        return typer.Exit(CLOSED_PIPE)
    return typer.Exit(SIGNALLED + interruption.number)


@final
class _PrintableFormatter(logging.Formatter):
    """Escapes characters that are not printable, and indents the lines after the first."""

    def format(self, record: logging.LogRecord) -> str:
        return Lines(super().format(record).replace("\n", "\n    "))


def _configure_logs(verbose: bool) -> None:  # noqa: FBT001 - the only argument
    """Print logs on stderr if asked to; otherwise drop them, as commands report what matters."""
    if verbose:
        handler = logging.StreamHandler()
        handler.setFormatter(_PrintableFormatter("%(levelname)s %(name)s: %(message)s"))
        logging.basicConfig(level=logging.INFO, handlers=[handler])
    else:
        logging.basicConfig(handlers=[logging.NullHandler()])


@app.command(epilog=EPILOG)
def watch(
    resource: _options.Resource,
    *,
    namespace: _options.Namespaces = None,
    all_namespaces: _options.AllNamespaces = False,
    selector: _options.Labels = None,
    field_selector: _options.Fields = None,
    output: Annotated[
        _options.WatchForm, typer.Option("--output", "-o", help="The format of the output.")
    ] = _options.WatchForm.TABLE,
    timeout_seconds: Annotated[
        float | None,
        typer.Option(min=0.1, help="Stop after this time: exit status 0, or 3 if not synced."),
    ] = None,
    metadata_only: _options.MetadataOnly = False,
    show_secrets: _options.ShowSecrets = False,
    context: _options.Context = None,
    kubeconfig: _options.Kubeconfig = None,
    server: _options.Server = None,
    user: _options.User = None,
    group: _options.Groups = None,
    verbose: _options.Verbose = False,
) -> None:
    """Print the existing objects, then each addition, update and deletion.

    An update is printed as the paths that it changed. With -o json each event is one line:
    {"type": "ADDED", "object": {...}}. Existing objects have "initial": true and are followed by
    {"type": "SYNCED"}; MODIFIED has "changedPaths".
    """
    from pyinformer.cli.objects import Command, DisplayOptions, WatchCommand

    _configure_logs(verbose)
    display = DisplayOptions(
        form=output.value, shows_secrets=show_secrets, metadata_only=metadata_only
    )
    command = Command(
        name="watch",
        access=_options.access_of(kubeconfig, context, server, user, group),
        wanted=_options.target_of(
            resource,
            namespaces=namespace,
            all_namespaces=all_namespaces,
            selector=selector,
            field_selector=field_selector,
            metadata_only=metadata_only,
        ),
        timeout_seconds=timeout_seconds,
        output=sys.stdout,
        errors=sys.stderr,
    )
    raise typer.Exit(command.run(lambda shutdown, output: WatchCommand(display, shutdown, output)))


@app.command(epilog=EPILOG)
def record(
    resource: _options.Resource,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="A file that does not exist yet.")
    ],
    namespace: _options.Namespaces = None,
    all_namespaces: _options.AllNamespaces = False,
    selector: _options.Labels = None,
    field_selector: _options.Fields = None,
    for_seconds: Annotated[
        float | None,
        typer.Option(min=0.1, help="Stop after this time: exit status 0, or 3 if not synced."),
    ] = None,
    max_bytes: Annotated[
        int | None,
        typer.Option(
            min=1 << 20,
            help="How much FILE and the file before it may have together.",
            show_default="256 MiB",
        ),
    ] = None,
    redact: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Keep only metadata of this kind; repeatable."),
    ] = None,
    metadata_only: _options.MetadataOnly = False,
    context: _options.Context = None,
    kubeconfig: _options.Kubeconfig = None,
    server: _options.Server = None,
    user: _options.User = None,
    group: _options.Groups = None,
    verbose: _options.Verbose = False,
) -> None:
    """Write what an informer receives to a file, until Ctrl-C.

    pyinformer.testing.replay() gives it to an informer again, in a test. Values of Secrets and
    last-applied annotations are hidden; everything else of the objects is in the file.
    """
    from pyinformer.cli.objects import Command, RecordCommand

    _configure_logs(verbose)
    command = Command(
        name="record",
        access=_options.access_of(kubeconfig, context, server, user, group),
        wanted=_options.target_of(
            resource,
            namespaces=namespace,
            all_namespaces=all_namespaces,
            selector=selector,
            field_selector=field_selector,
            metadata_only=metadata_only,
        ),
        timeout_seconds=for_seconds,
        output=sys.stdout,
        errors=sys.stderr,
    )

    def job(_shutdown: Shutdown, text: Output) -> RecordCommand:
        return RecordCommand(output, max_bytes=max_bytes, redact=redact or [], output=text)

    raise typer.Exit(command.run(job))


@app.command(epilog=EPILOG)
def get(
    resource: _options.Resource,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these; default: all.")
    ] = None,
    *,
    index: Annotated[
        str | None,
        typer.Option(metavar="PATH=VALUE", help="Only objects with this value at this path."),
    ] = None,
    namespace: _options.Namespaces = None,
    all_namespaces: _options.AllNamespaces = False,
    selector: _options.Labels = None,
    field_selector: _options.Fields = None,
    output: Annotated[
        _options.GetForm, typer.Option("--output", "-o", help="The format of the output.")
    ] = _options.GetForm.TABLE,
    timeout_seconds: Annotated[
        float, typer.Option(min=0.1, help="How long to wait for the sync; then exit status 3.")
    ] = 30.0,
    metadata_only: _options.MetadataOnly = False,
    show_secrets: _options.ShowSecrets = False,
    context: _options.Context = None,
    kubeconfig: _options.Kubeconfig = None,
    server: _options.Server = None,
    user: _options.User = None,
    group: _options.Groups = None,
    verbose: _options.Verbose = False,
) -> None:
    """Print the existing objects once, from a synced cache."""
    from pyinformer.cli.objects import Command, DisplayOptions, Get, ObjectFilter

    _configure_logs(verbose)
    display = DisplayOptions(
        form=output.value, shows_secrets=show_secrets, metadata_only=metadata_only
    )
    chosen = tuple(names or ())
    if len(chosen) == 1 and field_selector is None:
        field_selector = f"metadata.name={chosen[0]}"  # no other object is loaded
    object_filter = ObjectFilter(
        names=chosen, index=None if index is None else _options.path_and_value(index)
    )
    command = Command(
        name="get",
        access=_options.access_of(kubeconfig, context, server, user, group),
        wanted=_options.target_of(
            resource,
            namespaces=namespace,
            all_namespaces=all_namespaces,
            selector=selector,
            field_selector=field_selector,
            metadata_only=metadata_only,
        ),
        timeout_seconds=timeout_seconds,
        output=sys.stdout,
        errors=sys.stderr,
    )
    raise typer.Exit(
        command.run(lambda shutdown, output: Get(object_filter, display, shutdown, output))
    )


@app.command(epilog=_options.DOCTOR_EPILOG)
def doctor(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RESOURCE...|URL...]",
            help="Resources, as for `watch`: checks the server and what it offers for them. Or the"
            " health endpoints of a running program and its replicas: http://127.0.0.1:8081.",
        ),
    ] = None,
    *,
    namespace: _options.Namespaces = None,
    all_namespaces: _options.AllNamespaces = False,
    idle_seconds: Annotated[
        float | None,
        typer.Option(min=1.0, help="Keep a silent watch open for so long: is it cut off?"),
    ] = None,
    output: Annotated[
        _options.ReportForm, typer.Option("--output", "-o", help="The format of the output.")
    ] = _options.ReportForm.TEXT,
    timeout_seconds: Annotated[
        float, typer.Option(min=0.1, help="How long each request may take.")
    ] = 10.0,
    context: _options.Context = None,
    kubeconfig: _options.Kubeconfig = None,
    server: _options.Server = None,
    user: _options.User = None,
    group: _options.Groups = None,
    verbose: _options.Verbose = False,
) -> None:
    """Find out what is wrong with a server or a running program, with evidence and cures.

    Of a server it checks name, connection, TLS, clocks, expiry, version, and for each RESOURCE
    rights, lists, watches and memory. It only reads, and creates SelfSubjectAccessReviews.

    Of a program it reads the page /status. Several URLs are replicas of one program: a Lease with
    two holders is only seen in the pages of both.
    """
    from pyinformer.cli.doctor import doctor as run_doctor
    from pyinformer.cli.doctor import examine_programs, examine_server

    _configure_logs(verbose)
    names = targets or []
    access = _options.access_of(kubeconfig, context, server, user, group)
    is_program = _options.names_programs(names)
    urls = _options.health_urls(names) if is_program else []
    where = _options.namespaces_of(namespace, all_namespaces=all_namespaces)

    async def examine() -> Report:
        """Examine what the arguments name."""
        if is_program:
            return await examine_programs(urls, timeout_seconds=timeout_seconds)
        return await examine_server(
            access,
            names,
            namespaces=where,
            all_namespaces=all_namespaces,
            timeout_seconds=timeout_seconds,
            idle_seconds=idle_seconds,
        )

    as_json = output is _options.ReportForm.JSON
    raise typer.Exit(run_doctor(examine, as_json=as_json, output=sys.stdout, errors=sys.stderr))


@app.command(epilog=_options.TOP_EPILOG)
def top(
    urls: Annotated[
        list[str],
        typer.Argument(
            metavar="URL...",
            help="The health endpoint of a running program, or those of its replicas:"
            " http://127.0.0.1:8081.",
        ),
    ],
    *,
    interval_seconds: Annotated[
        float, typer.Option(min=0.1, help="How often each program is asked.")
    ] = 2.0,
    timeout_seconds: Annotated[
        float, typer.Option(min=0.1, help="How long an answer may take.")
    ] = 10.0,
    verbose: _options.Verbose = False,
) -> None:
    """Show caches, controllers and Leases of running programs live, those in trouble first.

    q or Ctrl-C ends it. Without a terminal it prints their state once.
    """
    from pyinformer.cli.doctor import top as run_top

    _configure_logs(verbose)
    status = run_top(
        _options.health_urls(urls),
        interval_seconds=interval_seconds,
        timeout_seconds=timeout_seconds,
        output=sys.stdout,
    )
    raise typer.Exit(status)


@app.command()
def demo(
    *,
    seconds: Annotated[float, typer.Option(min=1.0, max=3600.0, help="How long to watch.")] = 20.0,
    seed: Annotated[int, typer.Option(help="The seed of the simulated events.")] = 0,
) -> None:
    """Watch informers follow a small simulated cluster, then compare them with the server.

    Exit status 0: at the end every cache, and every copy built from handler calls, equals what the
    server lists.
    """
    from pyinformer.cli.demo import demo as run_demo

    with _exit_status_of_signals():
        raise typer.Exit(run_demo(seconds=seconds, seed=seed, output=sys.stdout))


@app.command()
def serve(
    flags: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- FLAG...]",
            help="With --real: flags of kube-apiserver, such as --event-ttl=70s.",
        ),
    ] = None,
    *,
    real: Annotated[
        bool,
        typer.Option("--real", help="Run etcd and kube-apiserver instead of the embedded server."),
    ] = False,
    build: Annotated[
        bool, typer.Option("--build", help="With --real: build them if missing; takes minutes.")
    ] = False,
    tls: Annotated[
        bool, typer.Option("--tls", help="Serve HTTPS, with a CA that the kubeconfig trusts.")
    ] = False,
    rbac: Annotated[
        bool, typer.Option("--rbac", help="Evaluate roles, over HTTPS, and require a token.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port on 127.0.0.1; 0 is any free one.")
    ] = 0,
    definitions: Annotated[
        list[Path] | None,
        typer.Option(help="CustomResourceDefinitions to create: a YAML file, or a folder of some."),
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Where to write the kubeconfig; must not exist.")
    ] = None,
) -> None:
    """Run an API server for experiments until Ctrl-C, and write a kubeconfig for it.

    The embedded server is meant unless --real is given. The real one always has TLS and roles.
    """
    from pyinformer.cli._serve import ServedServer
    from pyinformer.cli._serve import serve as run_serve

    if build and not real:
        raise typer.BadParameter(
            "requires --real: the embedded server needs no build", param_hint="--build"
        )
    _check_flags(flags or [], real=real)
    wanted = ServedServer(
        real=real,
        build=build,
        flags=flags or [],
        tls=tls,
        rbac=rbac,
        port=port,
        definitions=definitions or [],
    )
    with _exit_status_of_signals():
        raise typer.Exit(run_serve(wanted, kubeconfig_path=kubeconfig, output=sys.stdout))


def _check_flags(flags: list[str], *, real: bool) -> None:
    """Refuse flags of kube-apiserver that have no server, or are not flags."""
    if flags and not real:
        raise typer.BadParameter("requires --real: it is for kube-apiserver", param_hint=flags[0])
    for flag in flags:
        name, is_set, _ = flag.partition("=")
        if not (name.startswith("--") and is_set):
            raise typer.BadParameter("must be --name=value, after --", param_hint=flag)


@app.command()
def scenes(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="The scenes to play.")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Play all scenes.")] = False,
    real: Annotated[
        bool,
        typer.Option("--real", help="Use etcd and kube-apiserver instead of the embedded server."),
    ] = False,
) -> None:
    """List or play known failures of informers, with a plain informer and with pyinformer.

    Exit status 0: the plain informer failed as in the original incident, and pyinformer did not.
    """
    from pyinformer.cli.scenes import SCENES, find, list_scenes, play

    if every and names:
        raise typer.BadParameter(
            "cannot be combined with names: it plays every scene", param_hint="--all"
        )
    if not names and not every:
        if real:
            raise typer.BadParameter("requires a NAME or --all", param_hint="--real")
        with _exit_status_of_signals():
            list_scenes(sys.stdout)
        return
    try:
        chosen = SCENES if every else find(names or ())
    except KeyError as error:
        raise typer.BadParameter(f"unknown scene {error}", param_hint="NAME") from None
    with _exit_status_of_signals():
        raise typer.Exit(play(chosen, real=real, output=sys.stdout))


@app.command()
def crd(
    targets: Annotated[
        list[str], typer.Argument(metavar="MODULE:NAME...", help="A model or an Operator.")
    ],
) -> None:
    """Print the CustomResourceDefinitions of models as YAML, for `kubectl apply -f -`.

    A model is a class decorated with `pyinformer.operator.custom_resource`, or one that an Operator
    reconciles.
    """
    from pyinformer.cli._crd import crd as print_definitions

    with _exit_status_of_signals():
        raise typer.Exit(print_definitions(targets, output=sys.stdout, errors=sys.stderr))


@app.command(epilog=EPILOG)
def migrate(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A CustomResourceDefinition, such as databases.acme.io."
        ),
    ],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="The server checks each write and stores nothing.")
    ] = False,
    context: _options.Context = None,
    kubeconfig: _options.Kubeconfig = None,
    server: _options.Server = None,
    user: _options.User = None,
    group: _options.Groups = None,
    verbose: _options.Verbose = False,
) -> None:
    """Store all objects of a custom resource again, in the version that is its storage version.

    Nothing else of them changes. Then the other versions are removed from status.storedVersions of
    the definition, so that it can do without them. If the server refuses an object, they are not.
    """
    from pyinformer.cli._migrate import Migration

    _configure_logs(verbose)
    access = _options.access_of(kubeconfig, context, server, user, group)
    migration = Migration(access=access, name=name, dry_run=dry_run)
    raise typer.Exit(migration.run(output=sys.stdout, errors=sys.stderr))


@app.command()
def rbac(
    target: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="An Operator.")],
    *,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "-n", "--namespace", help="A namespace that it follows; may be repeated. All if absent."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The name of all roles. The operator's name if absent.")
    ] = None,
    service_account: Annotated[
        str | None, typer.Option(metavar="NAMESPACE/NAME", help="The account to bind them to.")
    ] = None,
) -> None:
    """Print the least rights that an Operator needs as YAML, for `kubectl apply -f -`."""
    from pyinformer.cli._rbac import rbac as print_rights

    _options.check_namespaces(namespace or ())
    with _exit_status_of_signals():
        raise typer.Exit(
            print_rights(
                target,
                namespaces=namespace or (),
                name=name,
                service_account=service_account,
                output=sys.stdout,
                errors=sys.stderr,
            )
        )


@app.command(epilog=EPILOG)
def diff(
    target: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="An Operator.")],
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="An object that it reconciles: namespace/name.")
    ],
    *,
    namespace: _options.Namespaces = None,
    timeout_seconds: Annotated[
        float, typer.Option(min=0.1, help="How long the caches may take; then exit status 3.")
    ] = 60.0,
    outside: Annotated[
        bool,
        typer.Option("--outside", help="Call functions with cleanup=, and that, too."),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Exit status 1 if something would change, or waits; 2 for an error."
        ),
    ] = False,
    show_secrets: _options.ShowSecrets = False,
    context: _options.Context = None,
    kubeconfig: _options.Kubeconfig = None,
    server: _options.Server = None,
    user: _options.User = None,
    group: _options.Groups = None,
    verbose: _options.Verbose = False,
) -> None:
    """Print what the functions of an Operator would change in the cluster now, for one object.

    They are called once, and each write is a dry run, which the server checks and does not store.

    What a function does elsewhere is done, also by a connection that it opens itself. Those with
    cleanup= are not called without --outside.
    """
    from pyinformer.cli._diff import Difference
    from pyinformer.cli._target import load_operator
    from pyinformer.errors import InformerError

    _configure_logs(verbose)
    access = _options.access_of(kubeconfig, context, server, user, group)
    namespaces = _options.namespaces_of(namespace, all_namespaces=False)
    try:
        operator = load_operator(target)
    except InformerError as error:
        print(f"pyinformer diff: {error}", file=sys.stderr)
        raise typer.Exit(failure(check=check)) from None
    difference = Difference(
        access=access,
        operator=operator,
        key=key,
        namespaces=namespaces,
        timeout_seconds=timeout_seconds,
        shows_secrets=show_secrets,
        outside=outside,
        check=check,
    )
    raise typer.Exit(difference.run(output=sys.stdout, errors=sys.stderr))


@app.command()
def init(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The operator's name: database-operator.")
    ],
    *,
    group: Annotated[str, typer.Option(help="The group of its resource, such as acme.io.")],
    kind: Annotated[str, typer.Option(help="The kind of its objects, such as Database.")],
    plural: Annotated[
        str, typer.Option(help="The plural name, such as databases; made from the kind if absent.")
    ] = "",
    version: Annotated[str, typer.Option(help="The version of the resource.")] = "v1alpha1",
    directory: Annotated[
        Path | None, typer.Option(help="The new folder; the operator's name if absent.")
    ] = None,
    replicas: Annotated[
        int, typer.Option(min=1, help="How many replicas; several have leader election.")
    ] = 1,
    webhooks: Annotated[
        bool,
        typer.Option("--webhooks", help="With hooks, and an older version that is converted."),
    ] = False,
) -> None:
    """Write a project: an operator with its tests, its image, its manifests and a workflow.

    The folder is created as a whole, and nothing that exists is changed.
    """
    from pyinformer.cli.project import ProjectNames, init_project
    from pyinformer.errors import InvalidArgumentError

    try:
        names = ProjectNames(name=name, group=group, kind=kind, version=version, plural=plural)
    except InvalidArgumentError as error:
        option = "NAME" if error.argument == "name" else f"--{error.argument}"
        raise typer.BadParameter(error.reason, param_hint=option) from None
    with _exit_status_of_signals():
        raise typer.Exit(
            init_project(
                names,
                Path(name) if directory is None else directory,
                replicas=replicas,
                webhooks=webhooks,
                output=sys.stdout,
                errors=sys.stderr,
            )
        )


@app.command()
def webhooks(
    target: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="An Operator.")],
    *,
    service_account: Annotated[
        str | None,
        typer.Option(metavar="NAMESPACE/NAME", help="An account whose writes are left out."),
    ] = None,
) -> None:
    """Print what makes an API server ask the hooks of an Operator, for `kubectl apply -f -`."""
    from pyinformer.cli._webhooks import webhooks as print_configurations

    with _exit_status_of_signals():
        raise typer.Exit(
            print_configurations(
                target, service_account=service_account, output=sys.stdout, errors=sys.stderr
            )
        )


@app.command()
def manifests(
    target: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="An Operator.")],
    *,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Write nothing: print how the files differ; exit status 1, or 2 for an error.",
        ),
    ] = False,
) -> None:
    """Write the manifests of an Operator into `deploy` and `chart` of the current folder.

    They are made from its code and from the table tool.pyinformer of pyproject.toml.
    """
    from pyinformer.cli.project import update_manifests

    with _exit_status_of_signals():
        raise typer.Exit(
            update_manifests(
                target, check=check, folder=Path.cwd(), output=sys.stdout, errors=sys.stderr
            )
        )


@app.command()
def fence(
    *,
    lease: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE/NAME", help="The Lease of the leader election, or with the table."
        ),
    ],
    service_account: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="The account whose writes are checked.")
    ],
    sharing: Annotated[
        bool,
        typer.Option("--sharing", help="Replicas share keys: all that own a bucket may write."),
    ] = False,
) -> None:
    """Print an admission policy that lets only the leader's pod write, or those that own buckets.

    The server then refuses the account's writes and deletions from all pods but the one that holds
    the Lease, or with --sharing from those that own no bucket. Leases and Events are excepted.
    """
    from pyinformer.errors import InvalidArgumentError
    from pyinformer.leaderelection import admission_policy_yaml
    from pyinformer.sharding import sharing_policy_yaml

    policy = sharing_policy_yaml if sharing else admission_policy_yaml
    try:
        text = policy(lease=lease, service_account=service_account)
    except InvalidArgumentError as error:
        option = f"--{error.argument.replace('_', '-')}"
        raise typer.BadParameter(error.reason, param_hint=option) from None
    with _exit_status_of_signals():
        print(text, end="")
