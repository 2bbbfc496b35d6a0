"""Where each data set of the study can be fetched, and how its table is made of what the server sends.

The recipes were written from descriptions of the tables, and have been run on copies in the form of the servers, not on
the servers. Whatever they give is compared with the registry, so that a table that differs is noticed.
"""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pandas as pd
from scipy.io import arff

from knotwork.datasets._registry import get_spec

__all__ = ["SOURCES", "ByHand", "OpenML", "Source", "UCIArchive"]


@dataclass(frozen=True)
class OpenML:
    """A table of OpenML, whose columns have the names of the registry.

    Parameters
    ----------
    data_id : int
        Its number there.
    """

    data_id: int

    @property
    def label(self) -> str:
        """Name for messages."""
        return f"OpenML {self.data_id}"


@dataclass(frozen=True)
class UCIArchive:
    """Files of a ZIP archive of the UCI repository.

    Parameters
    ----------
    dataset_id : int
        Number of the data set there.
    archive : str
        Name of the archive, without its suffix.
    members : tuple of str
        Files in it; ``outer.zip/inner.csv`` is a file in an archive in the archive.
    read : callable
        Takes the bytes of each of these files and returns the table.
    """

    dataset_id: int
    archive: str
    members: tuple[str, ...]
    read: Callable[..., pd.DataFrame]

    @property
    def label(self) -> str:
        """Name for messages."""
        return f"UCI {self.dataset_id}"


@dataclass(frozen=True)
class ByHand:
    """A table that no server has in the form of the study.

    Parameters
    ----------
    reason : str
        Why not, as the end of a sentence.
    """

    reason: str

    @property
    def label(self) -> str:
        """Name for messages."""
        return "by hand"


Source = OpenML | UCIArchive | ByHand


def _csv(content: bytes, *, sep: str = ",", names: tuple[str, ...] | None = None) -> pd.DataFrame:
    """Read text in which nothing is missing: ``?`` and ``NA`` stay what they are."""
    header = 0 if names is None else None
    return pd.read_csv(
        io.BytesIO(content),
        sep=sep,
        header=header,
        names=None if names is None else list(names),
        skipinitialspace=True,
        keep_default_na=False,
        comment="|" if names is not None else None,
    )


def _abalone(content: bytes) -> pd.DataFrame:
    spec = get_spec("abalone")
    return _csv(content, names=("Sex", *spec.numerical, spec.target))


def _wine_quality(red: bytes, white: bytes) -> pd.DataFrame:
    return pd.concat([_csv(red, sep=";"), _csv(white, sep=";")], ignore_index=True)


def _pulsar(content: bytes) -> pd.DataFrame:
    return _csv(content, names=get_spec("pulsar").columns)


def _adult(train: bytes, test: bytes) -> pd.DataFrame:
    names = (
        *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
        *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
    )
    table = pd.concat([_csv(train, names=names), _csv(test, names=names)], ignore_index=True)
    return table.assign(income=table["income"].str.rstrip("."))  # the labels of the test part end with one


def _bank(content: bytes) -> pd.DataFrame:
    return _csv(content, sep=";")


def _marketing(content: bytes) -> pd.DataFrame:
    table = _bank(content)
    known = (table["job"] != "unknown") & (table["education"] != "unknown")
    return table[known].reset_index(drop=True)


def _eeg(content: bytes) -> pd.DataFrame:
    table = pd.DataFrame(arff.loadarff(io.StringIO(content.decode()))[0])
    return table.assign(eyeDetection=table["eyeDetection"].str.decode("ascii"))


_BANK = (222, "bank+marketing", ("bank.zip/bank-full.csv",))

SOURCES: Mapping[str, Source] = MappingProxyType(
    {
        "abalone": UCIArchive(1, "abalone", ("abalone.data",), _abalone),
        "california": ByHand("207 missing values were filled from the StatLib original, not from OpenML 45028"),
        "cpu_small": OpenML(227),
        "diamonds": OpenML(44979),
        "house_sales": OpenML(42092),
        "parkinsons": UCIArchive(189, "parkinsons+telemonitoring", ("parkinsons_updrs.data",), _csv),
        "wine_quality": UCIArchive(
            186, "wine+quality", ("winequality-red.csv", "winequality-white.csv"), _wine_quality
        ),
        "house_8l": OpenML(218),
        "pulsar": UCIArchive(372, "htru2", ("HTRU_2.csv",), _pulsar),
        "sulfur": OpenML(44020),
        "fifa_wage": ByHand("OpenML 44026 has other features and the logarithm of the target"),
        "sgemm": UCIArchive(440, "sgemm+gpu+kernel+performance", ("sgemm_product.csv",), _csv),
        "protein": UCIArchive(265, "physicochemical+properties+of+protein+tertiary+structure", ("CASP.csv",), _csv),
        "adult": UCIArchive(2, "adult", ("adult.data", "adult.test"), _adult),
        "bank": UCIArchive(*_BANK, _bank),
        "churn": OpenML(46911),
        "fico": OpenML(45554),
        "marketing": UCIArchive(*_BANK, _marketing),
        "eeg": UCIArchive(264, "eeg+eye+state", ("EEG Eye State.arff",), _eeg),
        "gamma": ByHand("it is a balanced draw from UCI 159 that OpenML 44085 need not have drawn alike"),
        "ipums": ByHand("it was built from the original of 1997 by the rules of the Grinsztajn benchmark"),
        "loan_status": OpenML(46434),
        "air_quality": OpenML(46880),
        "loan_type": ByHand("it is made of a snapshot of the World Bank's loans that is not kept under an address"),
        "shuttle": OpenML(40685),
    }
)
"""For each data set of the study its source."""
