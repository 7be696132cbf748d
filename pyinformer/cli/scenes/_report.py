"""The list of scenes, and the report of a scene that was played.

The result decides whether a scene passed; nothing here does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO, final

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pyinformer.cli._pipe_console import PipeConsole
from pyinformer.cli.scenes._scene import Claim, Scene, SceneResult, rows

_WIDTH = 100  # in a file, and on wider terminals
_MOST_IN_A_CELL = 24  # characters; longer values are printed below the table
_MOST_LOGGED = 5  # different lines


@final
class SceneReport:
    """Prints the list of scenes and their reports.

    Args:
        output: receives the text.
    """

    def __init__(self, output: TextIO) -> None:
        console = PipeConsole(file=output, highlight=False)
        width = min(console.width, _WIDTH) if console.is_terminal else _WIDTH
        self._console = PipeConsole(file=output, highlight=False, width=width)

    def list(self, scenes: Iterable[Scene]) -> None:
        """Print the list of scenes."""
        for scene in scenes:
            line = Text(f"{scene.name:<18}", style="bold")
            line.append(f"{scene.number:<4} {scene.title}", style="not bold")
            self._console.print(line, soft_wrap=True)
        self._console.print("\npyinformer scenes NAME plays one, pyinformer scenes --all plays all")
        self._console.print("--real plays them on a real kube-apiserver with etcd")

    def open(self, scene: Scene, server: str) -> None:
        """Print the description of a scene, before it is played."""
        self._console.rule(Text(f"{scene.number} {scene.name}", style="bold"), align="left")
        self._console.print(Text(scene.title, style="bold"))
        self._console.print(Text(scene.references, style="dim"))
        self._paragraph(scene.story)
        for who, what in (("plain", scene.plain), ("ours", scene.ours)):
            self._paragraph(f"{who}: {what}")
        self._console.print(Text(f"\nplaying on {server} ...", style="dim"))

    def report(self, scene: Scene, result: SceneResult[object], seconds: float) -> None:
        """Print the measured facts, the claims and the verdict."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("measured", min_width=_WIDTH // 2)
        table.add_column("plain", justify="right", style="yellow")
        table.add_column("ours", justify="right", style="cyan")
        long = []
        for label, *both in rows(result.plain, result.ours):
            if max(map(len, both)) > _MOST_IN_A_CELL:
                long.append((label, *both))
            else:
                table.add_row(label, *both)
        self._console.print(table)
        for label, plain, ours in long:
            self._console.print(label)
            self._indented(f"plain: {plain}", "yellow")
            self._indented(f"ours: {ours}", "cyan")
        self._logged(result)
        self._claims("the outage happens", result.outage)
        self._claims("and does not happen to pyinformer", result.prevented)
        self._console.print(verdict(scene, result, seconds), soft_wrap=True)

    def fail(self, what: str) -> None:
        """Print why a scene could not be played."""
        self._console.print(Text(what, style="bold red"), soft_wrap=True)

    def _paragraph(self, text: str) -> None:
        self._console.print(Padding(Text(text), (1, 0, 0, 2)))

    def _logged(self, result: SceneResult[object]) -> None:
        lines = list(result.logged.items())
        if not lines:
            return
        self._console.print("ours logged")
        for line, times in lines[:_MOST_LOGGED]:
            self._indented(_repeated(line, times), "dim")
        if len(lines) > _MOST_LOGGED:
            self._indented(f"and {len(lines) - _MOST_LOGGED} more", "dim")

    def _indented(self, text: str, style: str) -> None:
        self._console.print(Padding(Text(text, style=style, overflow="fold"), (0, 0, 0, 2)))

    def _claims(self, heading: str, claims: Iterable[Claim]) -> None:
        self._console.print(heading)
        for claim in claims:
            mark, style = ("yes", "green") if claim.holds else ("NO ", "bold red")
            self._console.print(Text(f"  {mark}  {claim.text}", style=style))


def verdict(scene: Scene, result: SceneResult[object], seconds: float) -> Text:
    """Return the verdict line."""
    failed = result.failed
    if not failed:
        return Text(f"PASSED in {seconds:.1f} s: {scene.verdict}", style="bold green")
    named = "; ".join(claim.text for claim in failed)
    return Text(f"FAILED in {seconds:.1f} s, not true: {named}", style="bold red")


def _repeated(line: str, times: int) -> str:
    return line if times == 1 else f"{line} ({times} times)"
