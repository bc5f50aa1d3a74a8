"""`bosket migrate`: what happens to each object when Bosket replaces KAI, and the steps in order. Never writes."""

from bosket.tools.migrate.item import Item, Outlook
from bosket.tools.migrate.plan import Plan, Step, plan_migration

__all__ = ["Item", "Outlook", "Plan", "Step", "plan_migration"]
