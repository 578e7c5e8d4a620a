"""The words of an outage, and the epochs that hold one."""

from __future__ import annotations

from replexplorer.core.epochs.epochs import Epoch, Epochs
from replexplorer.core.epochs.table import markdown
from replexplorer.core.server.comeback import Outage, outage_words
from replexplorer.core.server.protection import OutageSpan, ProtectionState, StateChange
from tests.known import known
from tests.typed import fields
from tests.unit.test_epochs import change, closed, noisy, play

BLOCKED, DEGRADED, PROTECTED = ProtectionState.BLOCKED, ProtectionState.DEGRADED, ProtectionState.PROTECTED


OUTAGES = """\

blocked_s=10.0 unprotected_s=9.9 unprotected=18_678 again_s=20.3
blocked_s=6.2 lasts=True
unprotected_s=0.4 unprotected=1 again_s=0.4
blocked_s=2.3 unprotected_s=1.8 unprotected=2671 fell_first=True again_s=2.3
down_s=3.0 restarts=("db1",)
unprotected_s=2.0
again_s=0.4
"""


def test_words(snapshot: object) -> None:
    assert [outage_words(Outage(**fields(line))) for line in OUTAGES.splitlines()] == snapshot


def suffer(epochs: Epochs, spans: str) -> None:
    """`blocked 19.9 22.0 is_first=True, degraded 22.0 30.0 unprotected=5`: states, from when to when."""
    for each in spans.split(","):
        state, from_s, to_s, *_ = each.split()
        epochs.suffer(OutageSpan(ProtectionState(state), float(from_s), float(to_s), **fields(each)))


def told(row: Epoch) -> tuple[str, ...]:
    """The words of an epoch's outage."""
    return outage_words(known(row.after).outage)


def cable_out_and_in() -> Epochs:
    """20 s sound, 10 s stalled and 10 s asynchronous, then in again; both sides measured."""
    epochs = Epochs(0.0)
    play(epochs, 0.0, closed(noisy(40, 30, 1)))
    epochs.begin(1, 20.0, "partition none → both")
    epochs.effective(1, 20.1)
    play(epochs, 20.0, closed([0] * 20))
    suffer(epochs, "blocked 19.9 22.0 is_first=True, blocked 22.0 29.9")
    epochs.turned(StateChange(29.9, BLOCKED, DEGRADED, 10.0, is_outage=True))
    suffer(epochs, "degraded 29.9 39.9 unprotected=18678 is_first=True")
    play(epochs, 30.0, closed(noisy(20, 900, 2)))
    epochs.begin(2, 40.0, "partition both → none")
    epochs.effective(2, 40.2)
    suffer(epochs, "degraded 39.9 40.4 unprotected=500")
    epochs.turned(StateChange(40.4, DEGRADED, PROTECTED, 10.5, outage_s=19.9, unprotected=19_178))
    play(epochs, 40.5, closed(noisy(60, 30, 3)))
    return epochs


def test_a_measured_epoch_has_its_outage_whole_as_the_charts_and_the_log_have_it() -> None:
    """A lab's cut link: healed by the next phase, which is measured later."""
    epochs = Epochs(0.0)
    epochs.begin(1, 10.0, "partition")
    epochs.effective(1, 13.0, from_s=14.0)
    suffer(epochs, "blocked 11.9 13.2 is_first=True, blocked 13.2 18.0")
    epochs.end(18.0)
    epochs.begin(2, 18.1, "healed")
    suffer(epochs, "blocked 18.0 20.0, blocked 20.0 22.3")
    epochs.turned(StateChange(22.3, BLOCKED, PROTECTED, 10.4, outage_s=11.9))
    epochs.effective(2, 23.1, from_s=23.5)
    _, cut, healed = epochs.rows()
    assert told(cut)[0] == "blocked 10.4 s, protected again after 10.4 s"
    assert told(healed) == ()


def test_a_measured_epoch_has_nothing_of_what_its_change_passed_through() -> None:
    epochs = Epochs(0.0)
    epochs.begin(1, 10.0, "semi-sync")
    suffer(epochs, "blocked 10.5 11.9 is_first=True")
    epochs.turned(StateChange(11.9, BLOCKED, PROTECTED, 1.4, outage_s=10.5))
    epochs.effective(1, 13.0, from_s=14.0)
    assert all(row.after is None or not row.after.outage for row in epochs.rows())


def test_what_came_first_is_told_first() -> None:
    """The cable is in again: unprotected until the replica has caught up, then a commit waits for it."""
    epochs = Epochs(0.0)
    epochs.begin(1, 40.0, "partition both → none")
    suffer(epochs, "degraded 40.0 41.8 unprotected=2671, blocked 42.0 44.3 is_first=True")
    assert told(epochs.rows()[1])[1] == "2,671 commits unprotected, then blocked 2.3 s"


def test_the_epoch_after_a_clean_one_is_compared_again() -> None:
    epochs = cable_out_and_in()
    change(epochs, 3, 71.0)
    play(epochs, 71.0, closed(noisy(60, 10, 4)))
    change(epochs, 4, 102.0)
    play(epochs, 102.0, closed(noisy(60, 30, 5)))
    *_, after_outage, sound = epochs.rows()
    assert after_outage.verdict == "outage"
    assert after_outage.delta_percent is None
    assert sound.verdict == "faster"


def test_a_restart_within_an_epoch_claims_nothing() -> None:
    epochs = Epochs(0.0)
    play(epochs, 0.0, closed(noisy(60, 30, 1)))
    change(epochs, 1, 30.0)
    epochs.restarted(35.0, "db2")
    epochs.restarted(36.0, "db2")
    play(epochs, 30.0, closed(noisy(60, 90, 1)))
    row = epochs.rows()[1]
    assert row.verdict == "outage"
    assert told(row) == ("db2 restarted",)


def test_an_outage_that_lasts_says_so_until_its_epoch_ends() -> None:
    epochs = Epochs(0.0)
    suffer(epochs, "blocked 3.0 9.2 is_first=True")
    assert told(epochs.rows()[0])[0] == "blocked 6.2 s, not over yet"
    epochs.begin(1, 9.3, "partition both → none")
    assert told(epochs.rows()[0])[0] == "blocked 6.2 s"


def test_an_epoch_with_an_outage_claims_no_gain_and_neither_does_the_next(snapshot: object) -> None:
    """Ten seconds at zero and then unprotected commits stood there as +3144 % in green. What was under way
    when the cable went is the cable's; of two states together no interval says how far they would repeat;
    the 20.5 s are since the cable went, as the log has it; a look's commits are shared out by the time in
    each epoch."""
    assert markdown(cable_out_and_in().rows()) == snapshot
