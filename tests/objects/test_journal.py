"""The journal keeps the newest sentences, and of a long one its start."""

from __future__ import annotations

from pyinformer.objects import DiagnosticJournal


def test_the_newest_sentences_are_kept() -> None:
    journal = DiagnosticJournal(3, wall_clock=lambda: 0.0)
    for number in range(5):
        journal.note(f"{number}")
    assert [entry.what for entry in journal.entries()] == ["2", "3", "4"]


def test_an_entry_is_cut_to_the_maximum_length() -> None:
    """An error may quote what a server wrote, or a tenant."""
    journal = DiagnosticJournal(256, wall_clock=lambda: 0.0)
    for _ in range(300):
        journal.note("x" * 100_000)
    assert sum(len(entry.what) for entry in journal.entries()) == 256 * 2_048
