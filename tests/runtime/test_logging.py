"""The loggers of the package: no value that a line shows can end the line or steer a terminal."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest

from pyinformer._printable import Lines
from pyinformer._runtime.escaping_loggers import get_logger
from tests.hostile import HOSTILE, assert_shown_safely

_log = get_logger("pyinformer.tests")


class Named:
    """Something whose text is what a tenant wrote."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<{self._name}>"


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
@pytest.mark.parametrize("shape", ["%s", "%r", "%(name)s"])
def test_a_logged_value_does_not_break_its_line(
    text: str, shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    for value in (text, Named(text), ValueError(text)):
        caplog.clear()
        _log.error(f"it is {shape}", {"name": value} if "(" in shape else value)
        assert_shown_safely(caplog.messages[0])
        assert caplog.messages[0].startswith("it is ")


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_texts_of_structured_fields_are_escaped_and_other_values_kept(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    facts: Mapping[str, object] = {"resource": text, "objects": 3, "keys": (text,)}
    _log.warning("it is %(resource)s, %(objects)d", facts, extra=facts)

    (record,) = caplog.records
    assert_shown_safely(record.__dict__["resource"])
    assert record.__dict__["objects"] == 3
    assert record.__dict__["keys"] == (text,)


def test_numeric_format_specifiers_work(caplog: pytest.LogCaptureFixture) -> None:
    _log.error("%d of %.1f, %5.1f %%: %s", 3, 4.25, 75, None)
    assert caplog.messages == ["3 of 4.2,  75.0 %: None"]


def test_line_breaks_of_the_format_string_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    _log.error("status\n%s", Lines("one\ntwo \x1b[2J"))
    assert_shown_safely(caplog.messages[0], lines=3)


def test_a_value_of_any_length_costs_a_line_of_bounded_length(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _log.error("%s and %s", "<" * 300_000, Named("\x1b" * 300_000))
    assert len(caplog.messages[0]) < 40_000
    assert caplog.messages[0].endswith("...")


@pytest.mark.parametrize(
    "module",
    [
        "pyinformer.cache.reflector",
        "pyinformer.cache.reflector._loader",
        "pyinformer.cache.reflector.guard._guard",
    ],
)
def test_a_logger_has_the_name_of_the_folder(module: str) -> None:
    assert get_logger(module).logger.name == "pyinformer.cache.reflector"


def test_a_line_names_the_module_that_wrote_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "pyinformer.tests")
    _log.error("one")
    _log.log(logging.DEBUG, "two")
    assert [record.filename for record in caplog.records] == ["test_logging.py"] * 2
    assert {record.funcName for record in caplog.records} == {
        "test_a_line_names_the_module_that_wrote_it"
    }


def test_a_disabled_level_is_not_formatted(caplog: pytest.LogCaptureFixture) -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError

    caplog.set_level(logging.INFO, "pyinformer.tests")
    _log.debug("%s", Costly())
    assert not caplog.records


class _Breaks(logging.Filter):
    """A filter of a program that does not expect a number."""

    def __init__(self, kind: type[BaseException]) -> None:
        super().__init__()
        self.kind = kind

    def filter(self, record: logging.LogRecord) -> bool:
        raise self.kind(str(record.args))


@pytest.fixture
def breaking() -> Iterator[_Breaks]:
    """A filter of the package's logger."""
    one, logger = _Breaks(TypeError), logging.getLogger("pyinformer.tests")
    logger.addFilter(one)
    yield one
    logger.removeFilter(one)


def test_a_filter_that_raises_costs_the_line_and_is_named_once() -> None:
    """In a process of its own: in tests such an error is raised."""
    program = """
import logging
from pyinformer._runtime.escaping_loggers import get_logger

def refuse(record):
    raise TypeError("secret")

handler = logging.StreamHandler()
handler.addFilter(refuse)
logging.getLogger().addHandler(handler)
for number in range(3):
    get_logger("pyinformer.tests").error("it is %d", number)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=100, capture_output=True, text=True
    )
    (line,) = done.stderr.splitlines()
    assert line == (
        "pyinformer: lines of the log are lost:"
        " a filter or a handler of logs raised TypeError at <string>:6"
    )


_STDERR = {
    "closed": "sys.stderr.close()",
    "no-reader": "read, write = os.pipe(); os.close(read); os.dup2(write, 2)",
    "full": "os.dup2(os.open('/dev/full', os.O_WRONLY), 2)",
    "none": "sys.stderr = None",
    "foreign": "sys.stderr = object()",
}


@pytest.mark.parametrize("stderr", _STDERR)
@pytest.mark.parametrize("handler", ["None", "logging.StreamHandler()", "Naive()"])
def test_nothing_leaves_a_log_call_where_stderr_cannot_be_written(
    handler: str, stderr: str
) -> None:
    """In a process of its own. Without a handler, Python prints warnings to stderr itself."""
    program = f"""
import logging, os, sys
from pyinformer._runtime.escaping_loggers import get_logger

class Naive(logging.Handler):
    def emit(self, record):
        print(self.format(record), file=sys.stderr, flush=True)
        raise ValueError(record)

handler = {handler}
if handler is not None:
    logging.getLogger().addHandler(handler)
{_STDERR[stderr]}
for number in range(3):
    get_logger("pyinformer.tests").error("it is %d", number)
print("continues")
sys.stdout.flush()
os._exit(0)  # Python's own end would flush stderr
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, timeout=100, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "continues"  # print(file=None) takes stdout


def test_what_ends_the_program_passes_the_report_of_a_lost_line() -> None:
    """In a process of its own: a signal arrives while the report is written."""
    program = """
import logging, sys
from pyinformer._runtime.escaping_loggers import get_logger

class Interrupted:
    def write(self, text):
        raise KeyboardInterrupt

def refuse(record):
    raise TypeError

logger = get_logger("pyinformer.tests")
logger.logger.addFilter(refuse)
sys.stderr = Interrupted()
try:
    logger.error("it is")
except KeyboardInterrupt:
    print("interrupted")
sys.stderr = sys.__stderr__
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=100, capture_output=True, text=True
    )
    assert done.stdout == "interrupted\n"


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_what_ends_the_program_passes(breaking: _Breaks, kind: type[BaseException]) -> None:
    breaking.kind = kind
    with pytest.raises(kind):
        _log.error("it is")


def test_a_line_that_cannot_be_formatted_fails_a_test(breaking: _Breaks) -> None:
    with pytest.raises(TypeError):
        _log.error("it is")
