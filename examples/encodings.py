"""Pictures of the encodings: one value in each of them, and their functions over real columns.

python examples/encodings.py docs/images     writes encodings.svg, bases.svg and features.svg, light and dark
"""

import sys
from pathlib import Path

from sklearn.datasets import load_diabetes

import knotwork as kw
from knotwork.datasets import encoding_illustration
from knotwork.report import draw_bases, draw_encoded_value, draw_features, save_figure

out = Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)
data = load_diabetes(as_frame=True, scaled=False)
columns = ["age", "bmi", "bp", "s1", "s5", "s6"]
table = data.data[columns].to_numpy()
figures = {
    "encodings": draw_encoded_value(encoding_illustration(seed=42), x=0.58, size=6),
    "bases": draw_bases(data.data["bmi"].to_numpy(), data.target.to_numpy(), name="body mass index"),
    "features": draw_features(kw.make_encoder("BS-Q", size=8).fit(table), table, names=columns),
}
for name, figure in figures.items():
    save_figure(figure, out / f"{name}.svg")
    print(out / f"{name}.svg")
