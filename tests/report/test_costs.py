"""Times and their ratios are those of the clocks, stacks do not count as single networks, and parameters add up."""

import numpy as np
import pandas as pd
import pytest

from knotwork.report._aggregate import read_records, sizes_of, summarise_folds
from knotwork.report._costs import (
    describe_ratios,
    describe_stacks,
    fixed_counterpart,
    overhead_table,
    ratio_table,
    ratios_of,
    stack_table,
    time_table,
)
from tests.report.cases import make_records

RECORDS = make_records(3, 2, n_folds=3)
SUMMARY = summarise_folds(read_records(RECORDS))


def records(together, *, learned=2.0, epochs=10):
    trained = make_records(
        1, 0, backbones=["mlp"], methods=["Std", "BS-U", "BS-Grad-U", "MS-Grad-U"], sizes=(7, 30), n_folds=3
    )
    is_learned = trained["method"] == "BS-Grad-U"
    return trained.assign(
        together=together, prepare_seconds=0.0, epochs=np.where(is_learned, 2 * epochs, epochs),
        train_seconds=np.where(is_learned, 4.0 * learned, 4.0),
    )  # fmt: skip


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_ratio_of_times(factor):
    pairs = ratios_of(read_records(records(False, learned=factor)))
    assert len(pairs) == 2 * 3, "one for each size and fold; there is no MS-U"
    (sentence,) = describe_ratios(pairs)
    assert sentence == (
        f"With mlp, training with learned knots takes {factor:g} times as long as with the same knots fixed, which "
        f"also depends on when it stops; an epoch takes {factor / 2:g} times as long (median {factor / 2:g} of 6 "
        "pairs)."
    )
    for row in ratio_table(pairs).rows:
        assert [cell.text for cell in row[:3]] == ["BS-Grad-U", "BS-U", "mlp"]
        times = [12 * factor, 12, factor, factor / 2, factor / 2, factor / 2]
        assert [cell.value for cell in row[4:]] == pytest.approx(times)


def test_the_recorded_time_of_an_epoch_is_used_if_available():
    trained = records(False, learned=3.0)
    typical = np.where(trained["method"] == "BS-Grad-U", 0.22, 0.2)
    pairs = ratios_of(read_records(trained.assign(epoch_seconds=np.where(trained["size"] == 7, typical, np.nan))))
    ratios = (pairs["per_epoch"] / pairs["per_epoch_fixed"]).groupby(pairs["size"]).mean()
    assert ratios.to_dict() == pytest.approx({7: 1.1, 30: 1.5})


def test_a_median_is_not_divided_by_a_mean():
    trained = records(False, learned=3.0)
    one_of_two = trained.assign(epoch_seconds=np.where(trained["method"] == "BS-Grad-U", 0.22, np.nan))
    pairs = ratios_of(read_records(one_of_two))
    assert (pairs["per_epoch"] / pairs["per_epoch_fixed"]).tolist() == pytest.approx([1.5] * 6)


def test_members_of_a_stack_are_not_compared_by_time():
    pairs = ratios_of(read_records(records(True)))
    assert not len(pairs)
    assert describe_ratios(pairs)[0].startswith("The time cost of learned knots is unknown")
    assert ratio_table(pairs).rows == []


def test_alone_against_stacked():
    both = pd.concat([records(False), records(True).assign(train_seconds=0.5)], ignore_index=True)
    frame = read_records(both)
    rows = {row[1].shown: [cell.value for cell in row[2:]] for row in stack_table(frame).rows}
    # Three folds of three methods at 4 s, of which one takes twice as long.
    assert rows["7"] == [9, 3 * (4 + 4 + 8), 4.5, 3 * 16 / 4.5]
    assert rows["no size"] == [3, 12, 1.5, 8]
    (sentence,) = describe_stacks(frame)
    assert (
        sentence == "In stacks, 21 networks of mlp took 11 s of training; one after the other 108 s, 10.3 times that."
    )
    assert stack_table(read_records(records(True))).rows == []


def test_overhead_agrees_with_the_formula():
    table = overhead_table(SUMMARY)
    added = {(row[0].text, row[2].value): [row[i].value for i in (4, 6)] for row in table.rows if row[1].text == "mlp"}
    # Learned knots add d (m - 3) parameters; the data sets have 4 to 8 features.
    assert added["BS-Grad-U", 7.0] == [4 * 4, 8 * 4]
    assert added["IS-Grad-U", 30.0] == [4 * 27, 8 * 27]
    assert not any(name == "MS-Grad-U" for name, _ in added), "there is no MS-U to compare with"


def test_counterparts():
    assert fixed_counterpart("IS-Grad-U") == "IS-U"
    assert fixed_counterpart("IS-Grad-U+L4") == "IS-U+L4"
    assert fixed_counterpart("PLR") is None
    assert fixed_counterpart("Std") is None
    assert fixed_counterpart("something else") is None


def test_times():
    rows = {(row[0].text, row[1].text): row[2].value for row in time_table(SUMMARY).rows}
    part = RECORDS.query("backbone == 'resnet' and method == 'IS-Q' and size == 7")
    epochs = (part["train_seconds"] / part["epochs"]).groupby(part["dataset"]).median()
    assert rows["resnet", "IS-Q"] == pytest.approx(1000 * epochs.median())
    assert len(sizes_of(SUMMARY)) == len(time_table(SUMMARY).columns) - 2
