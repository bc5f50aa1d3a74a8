"""From KAI to Bosket: what becomes of each object of a cluster, and the steps in order. Only says it; never writes."""

from bosket.tools.migrate.item import Item, Outlook
from bosket.tools.migrate.plan import Plan, Step, plan_migration

__all__ = ["Item", "Outlook", "Plan", "Step", "plan_migration"]
