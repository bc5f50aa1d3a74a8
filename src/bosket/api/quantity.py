"""Quantities of resources, as Kubernetes writes them."""

from __future__ import annotations

from typing import TypeAlias

Quantity: TypeAlias = str | int | float
