"""The binder: carries out what the scheduler decided, one BindRequest after the other, each exactly once."""

from bosket.binder.options import Options
from bosket.binder.plugin import Attempt, BindPlugin
from bosket.binder.service import service

__all__ = ["Attempt", "BindPlugin", "Options", "service"]
