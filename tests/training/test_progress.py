"""The line that shows how far training is."""

import io
import re

import pytest
from rich.console import Console

from knotwork.training import EpochReport, ProgressBar
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
    assert "6 min, at most 4 min left" in text


def test_the_share_of_a_time_that_is_given():
    now = [0.0]
    file = io.StringIO()
    with ProgressBar(Console(file=file, width=80, get_time=lambda: now[0]), seconds=300.0) as bar:
        for text in ("reading the table", "comparing", "fitting the model"):
            now[0] += 50.0
            bar.stage(text)
    assert file.getvalue().startswith("fitting the model ")
    assert "50 %, 2.5 min, at most 2.5 min left" in file.getvalue()
    assert len(file.getvalue().strip()) <= 80


def test_parts_share_one_line():
    file = io.StringIO()
    with ProgressBar(Console(file=file, width=160, get_time=lambda: 10.0)) as bar:
        with bar.part(end=0.8) as first:
            first(report(0, 10, done=1.0))
        with bar.part(begin=0.8) as second:
            second(report(0, 1, done=0.5))
    assert "90 %" in file.getvalue()
    assert len(file.getvalue().strip().splitlines()) == 1


def test_sentences_stand_above_the_line():
    file = io.StringIO()
    with ProgressBar(Console(file=file, force_terminal=True, width=80)) as bar:
        bar.stage("comparing")
        bar.say(lambda text: file.write(f"{text}\n"), "One sentence.")
    lines = re.split(r"[\r\n]", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", file.getvalue()))
    assert "One sentence." in lines


@pytest.mark.parametrize("sizes", [(7,), (7, 15)])
def test_training_ends_at_all_of_the_work_and_no_network(sizes):
    table, reports = make_table(), []
    run(table, [make_member(table, "BS-Q", size) for size in sizes], report=reports.append)
    shares = [each.done for each in reports]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert [each.n_training for each in reports] == [1, 1, 1, 0] * len(sizes)
