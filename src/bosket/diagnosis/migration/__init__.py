"""From KAI to Bosket: what becomes of each object of a cluster, and the steps in order. Only says it; never writes."""

from bosket.diagnosis.migration.item import Item, Outlook
from bosket.diagnosis.migration.plan import Plan, Step, plan_migration

__all__ = ["Item", "Outlook", "Plan", "Step", "plan_migration"]
