"""The program in a reservation pod: finds the pod's GPU, writes it onto the pod, and keeps running.

While it runs, the device plugin gives the GPU to no other pod. The embedded cluster, whose pods run no programs, calls
`report_device` itself.
"""

from bosket.services.reservation.nvml import DeviceNotFound, only_device
from bosket.services.reservation.program import NotInPod, OwnPod, hold_device, own_pod, report_device

__all__ = ["DeviceNotFound", "NotInPod", "OwnPod", "hold_device", "only_device", "own_pod", "report_device"]
