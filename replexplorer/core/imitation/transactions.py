"""Which statements make one transaction: seen where a server keeps sessions' last statements, else guessed.

Laws: a transaction that was seen from its beginning to its end is as it was; weights are those under which
the statements would come as often as they were counted (the likeliest ones, by expectation maximization
as of Richardson and Lucy); what no shape explains becomes a transaction of one statement, so that no
statement comes more seldom than it was counted. What was guessed says so.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from replexplorer.core.imitation.digest import BEGIN, COMMIT, OTHER, ROLLBACK, STATEMENT, kind_of
from replexplorer.core.imitation.look import DigestKey

MOST_SHAPES: Final = 200
_ROUNDS: Final = 300
_LEAST_SHARE: Final = 0.01
"""Of a digest's executions: so much may be left over without a transaction of its own."""
_NEARLY_ONE: Final = 0.9
"""Executions a transaction from which on a statement is in each."""
_NEARLY_WHOLE: Final = 0.03
"""How far from a whole number the executions a transaction may be and count as it."""
_MOST_ENDED_EARLY: Final = 0.5
"""Of all transactions, where only the counts of statements can say that some had no end of their own."""
_MOST_REPEATS: Final = 200


@dataclass(frozen=True, slots=True)
class SeenStatement:
    """One statement in a session's history."""

    session: int
    number: int
    """Grows within a session."""
    kind: str
    """As `digest.kind_of` has it; empty where its digest says it."""
    name: str = ""
    """What the server calls its digest; empty: it has none."""
    transaction: int | None = None
    """The number under which its transaction began; None outside of one."""


@dataclass(frozen=True, slots=True)
class TransactionShape:
    """One kind of transaction."""

    statements: tuple[DigestKey, ...]
    is_explicit: bool = False
    """Between BEGIN and COMMIT; else one statement in autocommit."""
    is_rolled_back: bool = False


@dataclass(frozen=True, slots=True)
class Boundaries:
    """How often sessions began a transaction of several statements, and ended one."""

    begins: int = 0
    """None where sessions are without autocommit."""
    commits: int = 0
    rollbacks: int = 0

    @property
    def ends(self) -> int:
        """Those that ended by a statement: a server that ends one itself, as of a deadlock or of a row that
        has changed, counts no ROLLBACK."""
        return self.commits + self.rollbacks


@dataclass(frozen=True, slots=True)
class Weighed:
    """A shape, how many of it came, and whether its boundaries are a guess."""

    shape: TransactionShape
    times: float
    is_guess: bool = False


@dataclass(slots=True)
class _Piece:
    """A transaction of which only a part was seen."""

    offsets: list[tuple[int, DigestKey]] = field(default_factory=list)
    """How far behind the beginning of the transaction."""


class Histories:
    """Puts the looks at all sessions' last statements together."""

    def __init__(self) -> None:
        self._runs: dict[int, list[list[SeenStatement]]] = defaultdict(list)
        """Of each session: stretches within which no statement is missing."""

    def add(self, look: Iterable[SeenStatement]) -> None:
        """Take one look; it joins what is known of a session where both have a statement in common."""
        by_session: dict[int, list[SeenStatement]] = defaultdict(list)
        for each in look:
            by_session[each.session].append(each)
        for session, found in by_session.items():
            found.sort(key=lambda each: each.number)
            runs = self._runs[session]
            if runs and runs[-1][-1].number >= found[0].number:
                last = runs[-1][-1].number
                runs[-1].extend(each for each in found if each.number > last)
            else:
                runs.append(found)

    @property
    def runs(self) -> list[list[SeenStatement]]:
        """All stretches."""
        return [run for runs in self._runs.values() for run in runs]

    @property
    def statements(self) -> int:
        """How many were seen."""
        return sum(map(len, self.runs))


@dataclass(slots=True)
class Sorted:
    """What histories say."""

    whole: Counter[TransactionShape] = field(default_factory=Counter)
    pieces: list[_Piece] = field(default_factory=list)


class _Step(NamedTuple):
    """One statement of a run, its digest known."""

    number: int
    kind: str
    key: DigestKey | None
    transaction: int | None


def sort_out(runs: Iterable[Sequence[SeenStatement]], names: Mapping[str, DigestKey]) -> Sorted:
    """Take stretches of statements apart into transactions; `names` says which digest is which."""
    found = Sorted()
    for run in runs:
        _sort_run([_step(each, names.get(each.name)) for each in run], found)
    return found


def _step(seen: SeenStatement, key: DigestKey | None) -> _Step:
    kind = seen.kind or (kind_of(key.text) if key is not None else OTHER)
    return _Step(seen.number, kind, key, seen.transaction)


def _sort_run(run: Sequence[_Step], found: Sorted) -> None:
    held: list[_Step] = []
    is_open, knows_begin, transaction = False, False, None
    # A history that changes while it is read may lack statements: numbers of transactions show it.
    has_numbers = any(each.transaction is not None for each in run)
    has_begins = any(each.kind == BEGIN for each in run)

    def leave() -> None:
        nonlocal is_open
        keys = [(each.number - (each.transaction or each.number), each.key) for each in held]
        if is_open and any(key for _, key in keys):
            found.pieces.append(_Piece([(offset, key) for offset, key in keys if key]))
        held.clear()
        is_open = False

    for place, each in enumerate(run):
        if each.kind == BEGIN:
            leave()
            is_open, knows_begin, transaction = True, True, None
            continue
        is_outside = has_numbers and each.transaction is None and each.kind == STATEMENT
        is_other = None not in (transaction, each.transaction) and transaction != each.transaction
        if is_open and held and (is_outside or is_other):
            leave()  # its end was not seen
        if each.kind in (COMMIT, ROLLBACK):
            keys = tuple(step.key for step in held if step.key is not None)
            if is_open and knows_begin:
                if keys:
                    found.whole[TransactionShape(keys, True, each.kind == ROLLBACK)] += 1
                held.clear()
                is_open = False
            else:
                leave()
            continue
        if each.transaction is not None:
            if not is_open:
                # Without a BEGIN (autocommit=0) the statement before it, where one is known, is not in it.
                is_open, knows_begin = True, place > 0 and not has_begins
            transaction = each.transaction
        if is_open:
            if each.kind == STATEMENT:
                held.append(each)
        elif each.kind == STATEMENT and each.key is not None:
            found.whole[TransactionShape((each.key,))] += 1
    leave()


def weigh(
    counts: Mapping[DigestKey, int],
    first_seen: Mapping[DigestKey, str],
    boundaries: Boundaries,
    seen: Sorted | None,
) -> list[Weighed]:
    """The kinds of transactions with how many of each came, the most frequent first.

    `counts` are statements on rows alone. Without histories (None) which statements are between the
    `boundaries` is guessed from these numbers.
    """
    ends = boundaries.ends
    shapes: list[TransactionShape] = []
    start: dict[TransactionShape, float] = {}
    guessed: set[TransactionShape] = set()
    if seen is not None:
        for shape, number in seen.whole.most_common(MOST_SHAPES):
            known = _known(shape, counts)
            if known.statements:
                start[known] = start.get(known, 0.0) + number
        shapes = list(start)
        found = _assembled(seen.pieces, counts, ends, shapes, start)
        for shape, times in found.items():
            shapes.append(shape)
            start[shape] = times
            guessed.add(shape)
    if ends and not any(shape.is_explicit for shape in shapes):
        for shape, times in _guess(counts, first_seen, boundaries).items():
            shapes.append(shape)
            start[shape] = times
            guessed.add(shape)
    fitted = _fit(shapes, start, counts, ends if seen is not None else 0)
    weighed = [Weighed(shape, fitted[shape], shape in guessed) for shape in shapes if fitted[shape] >= 0.5]
    return sorted(_with_rest(weighed, counts), key=lambda each: -each.times)


def _known(shape: TransactionShape, counts: Mapping[DigestKey, int]) -> TransactionShape:
    """Without statements that were not counted."""
    kept = tuple(key for key in shape.statements if key in counts)
    return TransactionShape(kept, shape.is_explicit, shape.is_rolled_back)


def _assembled(
    pieces: Sequence[_Piece],
    counts: Mapping[DigestKey, int],
    ends: int,
    whole: Sequence[TransactionShape],
    start: Mapping[TransactionShape, float],
) -> dict[TransactionShape, float]:
    """Transactions of which only parts were seen, put together: statements of one transaction belong
    together, each as often as it was counted, in the order of their mean distance from its beginning."""
    known = {key for shape in whole if shape.is_explicit for key in shape.statements}
    groups: list[tuple[set[DigestKey], int]] = []
    for piece in pieces:
        keys = {key for _, key in piece.offsets if key in counts}
        if not keys:
            continue
        joined, number = set(keys), 1
        for other in [each for each in groups if each[0] & keys]:
            groups.remove(other)
            joined |= other[0]
            number += other[1]
        groups.append((joined, number))
    groups = [(keys, number) for keys, number in groups if keys - known]
    if not groups or not ends:
        return {}
    explicit = sum(times for shape, times in start.items() if shape.is_explicit)
    total = explicit + sum(number for _, number in groups)
    places: dict[DigestKey, list[int]] = defaultdict(list)
    for piece in pieces:
        for offset, key in piece.offsets:
            places[key].append(offset)
    found = {}
    for keys, number in groups:
        own = max(1.0, ends * number / total)
        order = sorted(keys, key=lambda key: (sum(places[key]) / len(places[key]), key))
        statements = [key for key in order for _ in range(_repeats(counts[key] / own))]
        found[TransactionShape(tuple(statements), True)] = own
    return found


def _repeats(each: float) -> int:
    return max(1, min(_MOST_REPEATS, round(each)))


def _guess(
    counts: Mapping[DigestKey, int], first_seen: Mapping[DigestKey, str], boundaries: Boundaries
) -> dict[TransactionShape, float]:
    """One kind of transaction with each statement that came about once for every end, or more often; and
    what is left of it where the server ended some early: its first statements, and ROLLBACK."""
    begun = _begun(counts, boundaries)
    ended = min(boundaries.ends, begun)
    members = {
        key: max(1, min(_MOST_REPEATS, _whole(number, ended, begun)))
        for key, number in counts.items()
        if number >= _NEARLY_ONE * ended
    }
    if not members:
        return {}
    reach = {key: min(1.0, counts[key] / (members[key] * begun)) for key in members}
    # A clock that counts seconds alone puts all in one moment: what reads comes before what writes.
    order = sorted(members, key=lambda key: (first_seen.get(key, ""), not _is_read(key), key))
    if begun > ended:  # and what fewer transactions came to stands behind what more of them did
        order.sort(key=lambda key: -round(reach[key], 2))
    statements = [key for key in order for _ in range(members[key])]
    found = {TransactionShape(tuple(statements), True): float(ended)}
    here, done = 1.0, 0
    for key, after in zip(order, [*order[1:], None], strict=True):
        done += members[key]
        here = min(here, reach[key])
        goes_on = max(ended / begun, 0.0 if after is None else min(here, reach[after]))
        if here - goes_on > _LEAST_SHARE:
            found[TransactionShape(tuple(statements[:done]), True, True)] = (here - goes_on) * begun
    return found


def _begun(counts: Mapping[DigestKey, int], boundaries: Boundaries) -> int:
    """How many transactions of several statements there were: their BEGINs. Sessions without autocommit have
    none: then their ends, unless more statements came a whole number of times for each of one that came
    somewhat more often than the ends did."""
    ends = boundaries.ends
    if boundaries.begins:
        return boundaries.begins if boundaries.begins >= boundaries.commits else ends
    most = ends / (1 - _MOST_ENDED_EARLY)
    known = [number for number in counts.values() if number >= _NEARLY_ONE * ends]

    def fitting(begun: int) -> int:
        times = [number / begun for number in known]
        return sum(each >= _NEARLY_ONE and abs(each - round(each)) <= _NEARLY_WHOLE for each in times)

    return max([ends, *sorted(number for number in known if ends < number <= most)], key=fitting)


def _whole(number: int, ended: int, begun: int) -> int:
    """Executions of a statement in a transaction that was not ended early: no more than come to each that
    ended, and no more than it takes of all that were begun."""
    return min(math.ceil(number / begun - (1 - _NEARLY_ONE)), int(number / ended + 1 - _NEARLY_ONE))


def _is_read(key: DigestKey) -> bool:
    text = key.text.upper()
    return text.startswith("SELECT") and " FOR UPDATE" not in text


def _fit(
    shapes: Sequence[TransactionShape],
    start: Mapping[TransactionShape, float],
    counts: Mapping[DigestKey, int],
    ends: int,
) -> dict[TransactionShape, float]:
    """How many of each shape came, by the counts of its statements and by those of COMMIT and ROLLBACK."""
    total = sum(start.values())
    if not total:
        return dict(start)
    parts = {shape: Counter[DigestKey | None](shape.statements) for shape in shapes}
    if ends:
        for shape in shapes:
            if shape.is_explicit:
                parts[shape][None] = 1
    wanted: dict[DigestKey | None, float] = {key: float(number) for key, number in counts.items()}
    if ends:
        wanted[None] = float(ends)
    sizes = {shape: sum(parts[shape].values()) for shape in shapes}
    scale = sum(wanted.values()) / max(1.0, sum(start[shape] * sizes[shape] for shape in shapes))
    times = {shape: start[shape] * scale for shape in shapes}
    for _ in range(_ROUNDS):
        made: dict[DigestKey | None, float] = defaultdict(float)
        for shape in shapes:
            for key, number in parts[shape].items():
                made[key] += times[shape] * number
        for shape in shapes:
            if sizes[shape]:
                ratio = sum(
                    number * wanted[key] / made[key] for key, number in parts[shape].items() if made[key]
                )
                times[shape] *= ratio / sizes[shape]
    return times


def _with_rest(weighed: Sequence[Weighed], counts: Mapping[DigestKey, int]) -> list[Weighed]:
    """And what they leave over, each statement a transaction of its own."""
    made: dict[DigestKey, float] = defaultdict(float)
    for each in weighed:
        for key in each.shape.statements:
            made[key] += each.times
    has_explicit = any(each.shape.is_explicit for each in weighed)
    rest = []
    for key, number in counts.items():
        left = number - made[key]
        if left >= 0.5 and left > _LEAST_SHARE * number:
            rest.append(Weighed(TransactionShape((key,)), left, is_guess=has_explicit))
    by_shape: dict[TransactionShape, Weighed] = {}
    for each in (*weighed, *rest):
        before = by_shape.get(each.shape)
        by_shape[each.shape] = (
            each if before is None else Weighed(each.shape, before.times + each.times, before.is_guess)
        )
    return list(by_shape.values())
