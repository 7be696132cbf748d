"""Run one target: on files, or with `--fuzz` under the coverage-guided fuzzer, in this process."""

from __future__ import annotations

import sys
from pathlib import Path


def main(target: str, arguments: list[str]) -> None:
    """Run a target, with the options of libFuzzer behind `--fuzz`."""
    if arguments[:1] != ["--fuzz"]:
        from tests.fuzz.targets import TARGETS

        for name in arguments:
            TARGETS[target](Path(name).read_bytes())
        return
    import atheris

    with atheris.instrument_imports(include=["pyinformer"]):
        from tests.fuzz.targets import TARGETS

    atheris.Setup([sys.argv[0], *arguments[1:]], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
