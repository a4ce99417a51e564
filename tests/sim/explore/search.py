"""Breadth-first over every schedule of a small fleet, in search of a world in which a law does not hold.

Each scope starts a few supervisors, lets them settle or not, and then takes every move of every world that it has not
seen yet, as long as faults are left and up to a number of moves. A world in which nothing can happen is bad as well;
so is one of a sample from which a calm fleet does not serve its shard again. Since the shortest paths come first, the
one that is printed for a bad world is as short as any.
"""

from __future__ import annotations

import gc
import time
from array import array
from dataclasses import dataclass, replace

from tests.sim.explore.key import Keys
from tests.sim.explore.moves import moves
from tests.sim.explore.show import shown, told
from tests.sim.explore.take import calm, take
from tests.sim.explore.world import PROCESSES, READS, ROWS, WRITES, Move, World, fleet, served

CALM_QUANTA = 24  # T, hang, crash window and polls, twice
SAMPLE_EVERY = 199  # of the worlds that are found, how many are asked for their way out


@dataclass(frozen=True, slots=True)
class Scope:
    """What one exploration ranges over. `settled`: the shard is served before the first fault."""

    name: str
    supervisors: int
    faults: int
    allowed: frozenset[str]
    moves_max: int
    legs: bool = False
    settled: bool = True

    def begin(self) -> World:
        world = fleet(self.supervisors, 0, self.allowed, self.legs)
        if self.settled:
            world = calm(world, CALM_QUANTA)
            assert served(world), "the shard is not served"
        return replace(world, faults=self.faults)


@dataclass(frozen=True, slots=True)
class Found:
    """What an exploration found. `bad`: the law that does not hold and the moves that lead there."""

    states: int
    transitions: int
    depth: int
    complete: bool  # no move is left that leads to a new world
    seconds: float
    bad: str = ""
    path: tuple[Move, ...] = ()


EVERYTHING = WRITES | READS | PROCESSES | ROWS
SCOPES = (
    Scope("a supervisor is stopped", 2, 1, frozenset({"pause"}), 26),
    Scope("any other fault", 2, 1, EVERYTHING - {"pause"}, 200),
    Scope("three supervisors", 3, 1, EVERYTHING - {"pause"}, 18),
    Scope("a write goes wrong, every answer apart", 2, 1, WRITES, 200, legs=True),
    Scope("two writes go wrong", 2, 2, WRITES, 22),
    Scope("crashes and late writes", 2, 2, frozenset({"crash", "hold", "echo"}), 20),
    Scope("stopped supervisors and late writes", 2, 2, frozenset({"pause", "hold"}), 18),
    Scope("a deleted row", 2, 2, frozenset({"delete", "crash", "exit", "eat"}), 20),
    Scope("any fault at a cold start", 2, 1, EVERYTHING, 20, settled=False),
)
SHORT = (
    Scope("a supervisor is stopped", 2, 1, frozenset({"pause"}), 18),
    Scope("any other fault", 2, 1, EVERYTHING - {"pause"}, 14),
    Scope("a write goes wrong, every answer apart", 2, 1, WRITES, 20, legs=True),
    Scope("a cold start", 2, 1, frozenset({"hold", "linger", "unsent"}), 20, settled=False),
)


class Search:
    """The worlds found so far, each with the world and the move that it was first reached by."""

    def __init__(self, world: World) -> None:
        self._keys = Keys()
        self.seen = {self._keys.of(world)}
        self.transitions = 0
        self._parents = array("l", [-1])
        self._moves: list[Move] = [("begin", 0)]
        self.level = [(0, world)]

    def path(self, number: int) -> list[Move]:
        path: list[Move] = []
        while self._parents[number] >= 0:
            path.append(self._moves[number])
            number = self._parents[number]
        return path[::-1]

    def deepen(self) -> tuple[str, list[Move]]:
        """Take every move of every world of the last level; what is bad, if something is, and how one gets there."""
        level: list[tuple[int, World]] = []
        for number, world in self.level:
            possible = moves(world)
            if not possible:
                return "nothing can happen any more", self.path(number)
            for move in possible:
                self.transitions += 1
                try:
                    after = take(world, move)
                except AssertionError as broken:
                    return str(broken) or "an assertion of the core", [*self.path(number), move]
                digest = self._keys.of(after)
                if digest in self.seen:
                    continue
                self.seen.add(digest)
                if len(self.seen) % SAMPLE_EVERY == 0 and (stuck := _stuck(after)):
                    return stuck, [*self.path(number), move]
                level.append((len(self._moves), after))
                self._parents.append(number)
                self._moves.append(move)
        self.level = level
        self._keys.forget()
        return "", []


def _stuck(world: World) -> str:
    try:
        return "" if served(calm(world, CALM_QUANTA)) else f"not served after {CALM_QUANTA} quanta without a fault"
    except AssertionError as broken:
        return f"in the calm that follows: {broken}"


def explore(scope: Scope) -> Found:
    begun = time.monotonic()
    try:
        search = Search(scope.begin())
    except AssertionError as broken:
        return Found(0, 0, 0, False, time.monotonic() - begun, f"before the first fault: {broken}")
    bad, path, depth = "", [], 0
    while search.level and depth < scope.moves_max and not bad:
        bad, path = search.deepen()
        depth += 1
    seconds = time.monotonic() - begun
    return Found(len(search.seen), search.transitions, depth, not search.level, seconds, bad, tuple(path))


def story(scope: Scope, path: tuple[Move, ...]) -> str:
    """A path as people read it: each move, and the world after it where something is different."""
    if not path:
        return "no move was needed"
    world = scope.begin()
    lines = ["begin", *shown(world)]
    for move in path:
        before = world
        lines.append(told(before, move))
        try:
            world = take(before, move)
        except AssertionError:
            break
        known = set(shown(before))
        lines += [line for line in shown(world) if line not in known]
    return "\n".join(lines)


def outcome(scope: Scope) -> tuple[Found, str]:
    """What was found, and a line about it; where it is bad, the whole story."""
    gc.disable()  # nothing here is cyclic, and with so many live objects each collection is long
    found = explore(scope)
    end = "to the end" if found.complete else "so far"
    figures = f"{found.states} states, {found.transitions} transitions, {found.depth} moves deep {end}"
    line = f"{scope.name}: {figures}, {found.seconds:.1f} s"
    if found.bad:
        line = f"{line}\n{story(scope, found.path)}\nBAD: {found.bad}"
    return found, line
