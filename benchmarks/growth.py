"""How costs grow with the number of nodes: curves of measured rows, their exponents, and values between the sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from benchmarks.report import Figures

Curve = Mapping[int, float]  #: number of nodes → cost


def curves(rows: Iterable[Figures], column: str) -> dict[str, dict[int, float]]:
    """One column of the rows as a curve for each workload."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        found.setdefault(row["workload"], {})[row["nodes"]] = row[column]
    return found


def fitted_exponent(curve: Curve) -> float:
    """The slope of the line through the logarithms of sizes and costs, by least squares. Needs two sizes."""
    points = [(math.log(nodes), math.log(cost)) for nodes, cost in curve.items()]
    middle_x = sum(x for x, _ in points) / len(points)
    middle_y = sum(y for _, y in points) / len(points)
    along = sum((x - middle_x) * (y - middle_y) for x, y in points)
    return along / sum((x - middle_x) ** 2 for x, _ in points)


def value_at(curve: Curve, nodes: int) -> float:
    """The cost at a size: on the line, in logarithms, through its two neighbours, or the last two sizes beyond them."""
    sizes = sorted(curve)
    upper = next((place for place, size in enumerate(sizes) if size >= nodes), len(sizes) - 1)
    low, high = sizes[max(upper, 1) - 1], sizes[max(upper, 1)]
    exponent = fitted_exponent({low: curve[low], high: curve[high]})
    return float(curve[high] * (nodes / high) ** exponent)
