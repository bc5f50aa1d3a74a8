"""The binder: carries out BindRequests, each exactly once."""

from bosket.services.binder.options import Options, ReservationOptions
from bosket.services.binder.plugin import Attempt, BindPlugin, NotYet, Refused
from bosket.services.binder.plugin_table import InvalidPluginSettings, check_settings
from bosket.services.binder.service import service

__all__ = [
    "Attempt",
    "BindPlugin",
    "InvalidPluginSettings",
    "NotYet",
    "Options",
    "Refused",
    "ReservationOptions",
    "check_settings",
    "service",
]
