"""The paper's own average ranks as critical difference diagrams, with the groups that its 39 and 36 blocks imply.

    python results/paper_ranks.py results/paper ranks     writes six diagrams, each as SVG and PDF

The first argument is a folder with average_ranks_regression.csv and average_ranks_classification.csv: a column `method`
and a column m7, m15, ... for each size. The second is where to write.
"""

import sys
from pathlib import Path

import pandas as pd
from comparison import PAPER_BLOCKS

import knotwork as kw
from knotwork.report import draw_cd_diagram

paper, out = Path(sys.argv[1]), Path(sys.argv[2])
out.mkdir(parents=True, exist_ok=True)
for task, n_blocks in PAPER_BLOCKS.items():
    table = pd.read_csv(paper / f"average_ranks_{task}.csv", index_col="method")
    cd = kw.stats.critical_difference(len(table), n_blocks)
    print(f"{task}: critical difference of {len(table)} methods over {n_blocks} blocks {cd:.2f}")
    for column in table:
        ranks = table[column].sort_values()
        for group in kw.stats.cliques(ranks, cd):
            print(f"  {column}: {', '.join(ranks.index[list(group)])}")
        axes = draw_cd_diagram(
            list(ranks.index), ranks, cd, title=f"{task.capitalize()}, size {column.removeprefix('m')}"
        )
        for ending in ("svg", "pdf"):
            axes.figure.savefig(out / f"{task}_{column}.{ending}")
