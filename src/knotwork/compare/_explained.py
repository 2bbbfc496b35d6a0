"""The page of the recommended model beside the report: out of fold, and with the ranking in place of references."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from knotwork._model_page import (
    ErrorRow,
    FitRecord,
    PageRows,
    PageSubject,
    headline,
    kept_places,
    limited,
    notebook_view,
    report_text,
    subject_of,
)
from knotwork.compare._inputs import Source
from knotwork.compare._page import write_text
from knotwork.compare._verdict import RankedRow, Ranking
from knotwork.stats import compare_folds

OUT_OF_FOLD = "each predicted by models that were not trained on it, in the folds of the comparison"

SHORT_NAMES = {"linear": "Linear model", "additive": "Additive model", "boosting": "Boosting", "ensemble": "Ensemble"}
"""Names of kinds beside a dot; a single network has that of its encoding."""


@dataclass(frozen=True, eq=False)
class ExplainedModel:
    """The recommended model, and what its page shows.

    Parameters
    ----------
    estimator : estimator
        The model.
    rows : Source
        The rows that it was trained on.
    tested : Source
        Rows in the order of the predictions out of fold of the ranking, all among those of `rows`.
    ranking : Ranking
        Everything that was compared.
    test_to_train : float
        Rows that a fold tests, divided by its other rows.
    cautions : tuple of str
        Sentences on what limits it.
    """

    estimator: Any
    rows: Source
    tested: Source
    ranking: Ranking
    test_to_train: float
    cautions: tuple[str, ...] = ()

    def write(self, path: Path, deadline: float) -> tuple[str, str]:
        """Write the page, with less in it after a deadline; return its main sentence, and its top third as HTML."""
        subject = limited(self._subject(), deadline)
        assert subject.record is not None
        errors = self._errors(subject)
        write_text(path, report_text(subject, subject.record.kept, ranking=errors))
        return headline(subject, errors), notebook_view(subject, errors=errors, page=path.name)

    def _subject(self) -> PageSubject:
        """Return the model with rows of the comparison, whose predictions are those of the ranking."""
        subject, chosen = subject_of(self.estimator), self.ranking.chosen
        places = kept_places(self.tested.n_rows)
        within = self.rows.features.index.get_indexer(self.tested.features.index[places])
        target = self.tested.target[places]
        if subject.classes is not None:
            # A sample of the table may lack a class, and so may its model.
            codes = self._codes(subject)
            target = np.array([codes.index(code) for code in target.tolist()])
        kept = PageRows(self.rows.read.table.take(within), target, self._predictions(subject, chosen), OUT_OF_FOLD)
        record = FitRecord(self.rows.n_rows, chosen.seconds, time.time(), kept, " ".join(self.cautions))
        made = [*subject.made, ("chosen by", f"knotwork compare: {self.ranking.verdict}")]
        return replace(subject, record=record, made=made)

    def _codes(self, subject: PageSubject) -> list[int]:
        """Return the codes that the comparison has for the classes of the model."""
        assert subject.classes is not None
        return [self.tested.classes.index(label) for label in subject.classes.values]

    def _predictions(self, subject: PageSubject, line: RankedRow) -> Any:
        """Return predictions out of fold of a row of the ranking, for the rows of the page."""
        assert line.scored.predictions is not None
        predictions = line.scored.predictions[kept_places(self.tested.n_rows)]
        return predictions[:, None] if subject.classes is None else predictions[:, self._codes(subject)]

    def _errors(self, subject: PageSubject) -> list[ErrorRow]:
        """Return the model, and the best other row of each kind, with means and intervals over folds."""
        ranking, others = self.ranking, dict[str, RankedRow]()
        for line in ranking.lines:
            if line is not ranking.chosen and line.scored.predictions is not None:
                others.setdefault(line.kind, line)
        lines = [*others.values(), ranking.chosen]
        scores = np.stack([line.scored.scores[ranking.metric] for line in lines], axis=1)
        # The intervals of differences from an error of 0 are those of the errors.
        about = compare_folds(np.column_stack([np.zeros(len(scores)), scores]), test_to_train=self.test_to_train,
                              reference=0)  # fmt: skip
        rows = [ErrorRow("No model", ranking.naive, ranking.naive, ranking.naive)]
        for line, low, high in zip(lines, about.low[1:], about.high[1:], strict=True):
            is_model = line is ranking.chosen
            name = "This model" if is_model else SHORT_NAMES.get(line.kind, str(line.candidate))
            about_row: dict[str, Any] = {"is_model": is_model, "phrase": line.name}
            about_row["predictions"] = self._predictions(subject, line)
            rows.append(ErrorRow(name, line.mean, max(float(low), 0.0), float(high), **about_row))
        return rows
