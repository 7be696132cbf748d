"""Turns to compare a watch with a list: few for a connection, in the order of the requests."""

from __future__ import annotations

from pyinformer.cache.reflector.lineage import ComparisonTurns


class Taker:
    """A reflector that waits for a turn."""

    def __init__(self) -> None:
        self.wants = True

    def wants_turn(self) -> bool:
        """Return whether it has a use for one."""
        return self.wants


def test_turns_come_in_the_order_of_the_requests_and_a_few_in_a_minute() -> None:
    turns, takers = ComparisonTurns(), [Taker() for _ in range(6)]
    taken = [turns.take(one, 0.0, per_minute=4.0) for one in takers]
    assert taken == [True, True, False, False, False, False], "half of a minute's at once"
    assert turns.seconds_until(takers[3], 0.0, per_minute=4.0) == 30.0
    assert not turns.take(takers[3], 15.0, per_minute=4.0), "another one has waited for longer"
    assert turns.take(takers[2], 15.0, per_minute=4.0)
    assert turns.take(takers[3], 30.0, per_minute=4.0)


def test_a_member_that_has_no_use_for_its_turn_delays_no_other() -> None:
    turns, first, second = ComparisonTurns(), Taker(), Taker()
    assert turns.take(Taker(), 0.0, per_minute=2.0)
    assert not turns.take(first, 1.0, per_minute=2.0)
    assert not turns.take(second, 1.0, per_minute=2.0)
    first.wants = False
    assert turns.take(second, 30.0, per_minute=2.0)
    turns.leave(first)
    turns.leave(first)


def test_the_next_one_may_be_chosen_and_an_unused_turn_is_given_back() -> None:
    turns, first, second = ComparisonTurns(), Taker(), Taker()
    assert turns.take(Taker(), 0.0, per_minute=2.0)
    assert not turns.take(first, 1.0, per_minute=2.0)
    turns.hurry(second)
    assert not turns.take(first, 30.0, per_minute=2.0)
    assert turns.take(second, 30.0, per_minute=2.0)
    turns.give_back()
    assert turns.take(first, 30.0, per_minute=2.0)


def test_turns_do_not_pile_up_in_a_quiet_hour() -> None:
    turns = ComparisonTurns()
    assert turns.take(Taker(), 0.0, per_minute=2.5)
    assert [turns.take(Taker(), 3600.0, per_minute=2.5) for _ in range(3)] == [True, False, False]
