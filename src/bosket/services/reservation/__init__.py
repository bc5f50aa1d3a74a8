"""The program inside a reservation pod: finds out which GPU the pod was given, writes it onto the pod, and stays.

That it stays is what it is for: the device plugin gives the GPU to nobody else. The embedded cluster, whose pods run no
programs, calls `report_device` for them.
"""

from bosket.services.reservation.nvml import DeviceNotFound, only_device
from bosket.services.reservation.program import NotInPod, OwnPod, hold_device, own_pod, report_device

__all__ = ["DeviceNotFound", "NotInPod", "OwnPod", "hold_device", "only_device", "own_pod", "report_device"]
