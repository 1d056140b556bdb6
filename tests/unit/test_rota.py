"""In which order a worker looks at its queues."""

from collections import Counter

from echomq_django.worker.rota import Rota


def turns(rota: Rota, number: int) -> list[list[int]]:
    return [list(rota.turn()) for _ in range(number)]


def test_queues_of_equal_weight_come_first_in_turn() -> None:
    assert turns(Rota([1, 1, 1]), 4) == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]


def test_a_queue_comes_first_as_often_as_its_weight_says() -> None:
    assert Counter(turn[0] for turn in turns(Rota([3, 1]), 400)) == {0: 300, 1: 100}


def test_each_turn_looks_at_every_queue_once() -> None:
    assert all(sorted(turn) == [0, 1, 2] for turn in turns(Rota([5, 1, 2]), 16))


def test_it_can_go_on_where_another_one_has_left_off() -> None:
    rota = Rota([3, 1])
    assert turns(rota, 2) + turns(Rota([3, 1], turn=2), 3) == turns(Rota([3, 1]), 5)


def test_a_strict_rota_never_changes_whatever_the_weights() -> None:
    assert turns(Rota([1, 9], strict=True), 3) == [[0, 1]] * 3
