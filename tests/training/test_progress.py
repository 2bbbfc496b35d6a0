"""The line that shows how far training is."""

import io
import re

import pytest
from rich.console import Console

from knotwork.training._results import EpochReport, ProgressBar
from tests.training.cases import make_member, make_table
from tests.training.test_train import run


def report(stack, epoch, *, n_stacks=2, done=0.0, n_training=5):
    return EpochReport(stack, n_stacks, epoch, 10, 5, 5, 40, done, n_training)


def shown(reports, *, terminal=False, clock=None):
    """Return what is written, without the escape sequences of a terminal."""
    file, time = io.StringIO(), iter(range(10_000))
    console = Console(file=file, force_terminal=terminal, width=160, get_time=clock or (lambda: float(next(time))))
    with ProgressBar(console) as bar:
        for each in reports:
            bar(each)
    return file.getvalue()


def test_a_file_gets_one_line_at_the_end():
    text = shown([report(0, 1, done=0.2), report(1, 1, done=0.4, n_training=8), report(1, 2, done=0.75, n_training=3)])
    assert len(text.strip().splitlines()) == 1
    assert text.startswith("3 networks ")
    assert "75 %" in text
    assert "network steps/s" in text
    assert "at most" in text
    assert "epoch" not in text  # stacks are at different epochs


def test_one_stack_shows_its_epoch():
    text = shown([report(0, 1, n_stacks=1, done=0.1), report(0, 2, n_stacks=1, done=0.2, n_training=1)])
    assert text.startswith("1 network, epoch 2/10 ")


def test_a_terminal_has_one_line_that_is_removed():
    text = shown([report(place % 2, 1 + place // 2, done=place / 20) for place in range(20)], terminal=True)
    assert max(len(part.split("\n")) for part in re.split(r"\r", text)) <= 2  # never a second line below the first
    assert text.rstrip("\r").endswith("\x1b[2K")


def test_the_time_left_follows_from_the_share_of_the_work():
    now = [0.0]
    file = io.StringIO()
    with ProgressBar(Console(file=file, width=160, get_time=lambda: now[0])) as bar:
        for place in range(1, 7):  # a stack of short and a stack of long epochs, side by side
            now[0] += 60.0
            bar(report(place % 2, place, done=0.1 * place))
        bar(report(0, 1, done=0.05))  # a stack that begins again
    text = file.getvalue()
    assert "60 %" in text
    assert re.search(r"0:06:00 at most 0:04:00", text)
    assert " 1 network steps/s" in text  # 280 in 360 seconds


@pytest.mark.parametrize("sizes", [(7,), (7, 15)])
def test_training_ends_at_all_of_the_work_and_no_network(sizes):
    table, reports = make_table(), []
    run(table, [make_member(table, "BS-Q", size) for size in sizes], report=reports.append)
    shares = [each.done for each in reports]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert [each.n_training for each in reports] == [1, 1, 1, 0] * len(sizes)
