"""Which tests coverage measures.

Coverage makes tests take twice as long. Those named here reach next to no branch of the package
that no other test reaches: without them, coverage of all branches is half a percent lower.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent
# The branches of each folder of the package are those that the tests of that folder reach.
UNMEASURED_FOLDERS: Final = frozenset(
    {
        "benchmarks",
        "docs",
        "faults",
        "gates",
        "kopf_proofs",
        "typing",
    }
)
UNMEASURED_FILES: Final = frozenset(
    {
        "objects/test_compact.py",
        "objects/test_errors.py",
        "objects/test_fields.py",
        "objects/test_memory.py",
        "blocking/test_processes.py",
        "cli/test_commands.py",
        "cli/test_demo.py",
        "cli/test_outputs.py",
        "cli/test_watch.py",
        "cli/test_world.py",
        "client/cluster/test_pool_hostile.py",
        "conformance/test_shared_informer.py",
        "cache/informer/test_compact.py",
        "cache/informer/test_tenant_memory.py",
        "integration/test_audits.py",
        "integration/test_least_privilege.py",
        "integration/test_lineage.py",
        "integration/test_loads.py",
        "integration/test_many_objects.py",
        "integration/test_outages.py",
        "integration/test_rotation.py",
        "leaderelection/test_model.py",
        "operator/test_operator_program.py",
        "packaging/test_other_systems.py",
        "cache/reflector/test_absence.py",
        "cache/reflector/test_adversary.py",
        "cache/reflector/test_machine.py",
        "cache/reflector/test_outage.py",
        "controller/sources/test_resync_storm.py",
        "cache/store/test_overlay_threads.py",
        "cache/store/test_reads_in_threads.py",
        "cache/store/test_selecting.py",
        "cache/store/test_snapshot_reader.py",
        "cache/store/test_store_threads.py",
        "testing/test_pytest_plugin.py",
        "testing/test_world_time.py",
        "client/transport/test_chunks.py",
        "client/transport/test_watch_response.py",
    }
)


def is_measured(path: Path) -> bool:
    """Return whether coverage measures the tests of a file, and the programs that they start."""
    if not path.is_relative_to(TESTS):  # a test wrote it
        return True
    file = path.relative_to(TESTS)
    return file.parts[0] not in UNMEASURED_FOLDERS and file.as_posix() not in UNMEASURED_FILES
