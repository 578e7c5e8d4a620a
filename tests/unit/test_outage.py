"""The words of an outage, and the epochs that hold one."""

from __future__ import annotations

from replexplorer.core.epochs.epochs import Epochs
from replexplorer.core.epochs.table import markdown
from replexplorer.core.server.comeback import Outage, outage_words
from replexplorer.core.server.protection import OutageSpan, ProtectionState, StateChange
from tests.typed import fields
from tests.unit.test_epochs import closed, noisy, play

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


def epochs_of(story: str) -> Epochs:
    """What happens one after the other: a verb or the state of an outage, and when."""
    epochs, number = Epochs(0.0), 0
    for step in story.split(", "):
        verb, at, *more = (word for word in step.split() if "=" not in word)
        at_s = float(at)
        match verb:
            case "load":
                play(epochs, at_s, closed(noisy(*map(int, more))))
            case "change":
                number += 1
                epochs.begin(number, at_s, more[0])
            case "effective":
                epochs.effective(number, at_s, from_s=float(more[0]) if more else None)
            case "end":
                epochs.end(at_s)
            case "restart":
                epochs.restarted(at_s, more[0])
            case "turn":
                before, after = map(ProtectionState, more[:2])
                epochs.turned(StateChange(at_s, before, after, float(more[2]), **fields(step)))
            case state:
                epochs.suffer(OutageSpan(ProtectionState(state), at_s, float(more[0]), **fields(step)))
    return epochs


CABLE = (
    "load 0 40 30 1, change 20 partition, effective 20.1, load 20 20 0 1,"
    " blocked 19.9 22 is_first=True, blocked 22 29.9,"
    " turn 29.9 blocked degraded 10 is_outage=True, degraded 29.9 39.9 unprotected=18678 is_first=True,"
    " load 30 20 900 2, change 40 healed, effective 40.2, degraded 39.9 40.4 unprotected=500,"
    " turn 40.4 degraded protected 10.5 outage_s=19.9 unprotected=19178, load 40.5 60 30 3"
)
"""20 s sound, 10 s stalled and 10 s asynchronous, then in again; both sides measured."""
STORIES = {
    "a lab's cut link is healed by the next phase, which is measured later": (
        "change 10 partition, effective 13 14, blocked 11.9 13.2 is_first=True, blocked 13.2 18, end 18,"
        " change 18.1 healed, blocked 18 20, blocked 20 22.3,"
        " turn 22.3 blocked protected 10.4 outage_s=11.9, effective 23.1 23.5"
    ),
    "a measured epoch has nothing of what its change passed through": (
        "change 10 semi-sync, blocked 10.5 11.9 is_first=True,"
        " turn 11.9 blocked protected 1.4 outage_s=10.5, effective 13 14"
    ),
    "unprotected until the replica has caught up, then a commit waits for it": (
        "change 40 healed, degraded 40 41.8 unprotected=2671, blocked 42 44.3 is_first=True"
    ),
    "the epoch after a clean one is compared again": (
        f"{CABLE}, change 71 rtt, effective 71, load 71 60 10 4,"
        " change 102 rtt, effective 102, load 102 60 30 5"
    ),
    "a restart within an epoch claims nothing": (
        "load 0 60 30 1, change 30 rtt, effective 30, restart 35 db2, restart 36 db2, load 30 60 90 1"
    ),
    "an outage lasts": "blocked 3 9.2 is_first=True",
    "until its epoch ends": "blocked 3 9.2 is_first=True, change 9.3 healed",
}


def test_each_epoch_has_its_outage_whole_as_the_charts_and_the_log_have_it(snapshot: object) -> None:
    told = {}
    for case, story in STORIES.items():
        told[case] = [
            (row.title, row.verdict, row.delta_percent, row.after and outage_words(row.after.outage)[:1])
            for row in epochs_of(story).rows()
        ]
    assert told == snapshot


def test_an_epoch_with_an_outage_claims_no_gain_and_neither_does_the_next(snapshot: object) -> None:
    """Ten seconds at zero and then unprotected commits stood there as +3144 % in green. What was under way
    when the cable went is the cable's; of two states together no interval says how far they would repeat;
    the 20.5 s are since the cable went, as the log has it; a look's commits are shared out by the time in
    each epoch."""
    assert markdown(epochs_of(CABLE).rows()) == snapshot
