"""Loading of saved models, by the library that trained them or by the light runtime."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from knotwork._checks import check_choice
from knotwork._light import LIGHT_MODELS, light_model
from knotwork._model_files import open_model_file

RUNTIMES = ("auto", "torch", "light")


def load(path: str | Path, *, device: Any = "auto", runtime: str = "auto") -> Any:
    """Return the model that `save` wrote.

    No code in the file is run, and everything is checked before it is used: a file that is damaged, truncated or
    malicious raises an error. A model predicts as before, on the same kind of device bit for bit; in the light runtime
    to a relative 1e-5.

    Parameters
    ----------
    path : str or Path
        The file.
    device : str or torch.device, default="auto"
        Device for predictions, whichever device the model was trained on; by default a GPU if one is available.
    runtime : {"auto", "torch", "light"}, default="auto"
        With ``"torch"`` networks and boosted trees are estimators as before. With ``"light"`` they only predict:
        `predict`, `predict_proba`, `predict_interval`, `classes_`, `columns_` and `export`. This needs NumPy, SciPy,
        Numba and narwhals alone, and starts fast. By default torch, if it is installed. Additive models need no torch
        and are estimators in both.

    Returns
    -------
    TabularRegressor, TabularClassifier, AdditiveRegressor, AdditiveClassifier, LightRegressor or LightClassifier
        The fitted model.

    Raises
    ------
    PersistenceError
        If the file was not written by knotwork, is damaged, was written by another version, or has no graph for the
        light runtime; a ValueError.
    FileNotFoundError
        If the file does not exist.
    """
    check_choice(runtime, "runtime", RUNTIMES)
    if runtime == "torch" or (runtime == "auto" and find_spec("torch") is not None):
        from knotwork.estimators import load as load_estimator  # noqa: PLC0415 - torch takes seconds to load

        return load_estimator(path, device=device)
    with open_model_file(path) as file:
        if file.content["class"] in list(LIGHT_MODELS):  # it may be anything, also without a hash
            return light_model(file, path)
    from knotwork.additive import load as load_additive  # noqa: PLC0415 - the light runtime does not wait for it

    return load_additive(path)


def load_fastest(path: str | Path, *, device: Any = "auto") -> Any:
    """Return a model of the light runtime if a file has a graph; parameters as in `load`."""
    with open_model_file(path) as file:
        if file.content["class"] in list(LIGHT_MODELS) and "graph" in file.content:
            return light_model(file, path)
    return load(path, device=device)
