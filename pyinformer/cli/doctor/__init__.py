"""`pyinformer doctor` and `pyinformer top`: what is wrong with a program, or with its server."""

from pyinformer.cli.doctor._command import doctor
from pyinformer.cli.doctor._programs import examine_programs, report_of
from pyinformer.cli.doctor._report import Report
from pyinformer.cli.doctor._server_diagnosis import examine_server
from pyinformer.cli.doctor._status_page import base_url, fetch_status
from pyinformer.cli.doctor._top import top

__all__ = [
    "Report",
    "base_url",
    "doctor",
    "examine_programs",
    "examine_server",
    "fetch_status",
    "report_of",
    "top",
]
