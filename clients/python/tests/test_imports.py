"""Modules build on each other in one direction: those with data below, those with behaviour above."""

from __future__ import annotations

import ast
import unittest
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "pqbridge"


def imported(module: Path) -> set[str]:
    """Those of the package, in functions and for annotations, too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module} if node.module else {alias.name for alias in node.names}
    return found


class Imports(unittest.TestCase):
    def test_no_circles(self) -> None:
        modules = {module.stem: imported(module) for module in PACKAGE.glob("*.py")}
        self.assertLess(modules["errors"], set(TopologicalSorter(modules).static_order()))  # a circle fails
        self.assertIn("item", modules["queue"])
