"""In which order a worker looks at its queues: in turn, by weight, or strictly."""

from collections.abc import Iterator, Sequence


class Rota:
    """Yields the indexes of the queues in the order of each turn.

    With weights (3, 1) the first queue comes first in three turns of four; a strict rota never changes. `turn` is where
    it begins: it goes on where another one has left off.
    """

    def __init__(self, weights: Sequence[int], *, strict: bool = False, turn: int = 0) -> None:
        self._cycle = [index for index, weight in enumerate(weights) for _ in range(1 if strict else weight)]
        self._strict = strict
        self._turn = turn

    def turn(self) -> Iterator[int]:
        """Return the order of the next turn; each queue comes once."""
        start = 0 if self._strict else self._turn % len(self._cycle)
        self._turn += 1
        return iter(dict.fromkeys(self._cycle[start:] + self._cycle[:start]))
