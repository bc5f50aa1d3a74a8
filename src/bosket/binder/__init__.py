"""The binder: carries out what the scheduler decided, one BindRequest after the other, each exactly once."""

from bosket.binder.options import Options, ReservationOptions
from bosket.binder.plugin import Attempt, BindPlugin, Refused
from bosket.binder.plugin_table import InvalidPluginSettings, check_settings
from bosket.binder.service import service

__all__ = [
    "Attempt",
    "BindPlugin",
    "InvalidPluginSettings",
    "Options",
    "Refused",
    "ReservationOptions",
    "check_settings",
    "service",
]
