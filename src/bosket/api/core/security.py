"""Who the processes of a pod run as and what they may do."""

from __future__ import annotations

from bosket.api.object import Wire


class Capabilities(Wire):
    """POSIX capabilities to add and to drop."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SELinuxOptions(Wire):
    """The SELinux context of a container."""

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class WindowsSecurityContextOptions(Wire):
    """Security settings that only Windows containers have."""

    gmsaCredentialSpecName: str | None = None
    gmsaCredentialSpec: str | None = None
    runAsUserName: str | None = None
    hostProcess: bool | None = None


class SeccompProfile(Wire):
    """Which system calls a container may make."""

    type: str
    localhostProfile: str | None = None


class AppArmorProfile(Wire):
    """Which AppArmor profile confines a container."""

    type: str
    localhostProfile: str | None = None


class SecurityContext(Wire):
    """Security settings of one container; they win over the pod's."""

    capabilities: Capabilities | None = None
    privileged: bool | None = None
    seLinuxOptions: SELinuxOptions | None = None
    windowsOptions: WindowsSecurityContextOptions | None = None
    runAsUser: int | None = None
    runAsGroup: int | None = None
    runAsNonRoot: bool | None = None
    readOnlyRootFilesystem: bool | None = None
    allowPrivilegeEscalation: bool | None = None
    procMount: str | None = None
    seccompProfile: SeccompProfile | None = None
    appArmorProfile: AppArmorProfile | None = None


class Sysctl(Wire):
    """A kernel parameter to set."""

    name: str
    value: str


class PodSecurityContext(Wire):
    """Security settings that all containers of a pod share."""

    seLinuxOptions: SELinuxOptions | None = None
    windowsOptions: WindowsSecurityContextOptions | None = None
    runAsUser: int | None = None
    runAsGroup: int | None = None
    runAsNonRoot: bool | None = None
    supplementalGroups: tuple[int, ...] = ()
    supplementalGroupsPolicy: str | None = None
    fsGroup: int | None = None
    sysctls: tuple[Sysctl, ...] = ()
    fsGroupChangePolicy: str | None = None
    seccompProfile: SeccompProfile | None = None
    appArmorProfile: AppArmorProfile | None = None
    seLinuxChangePolicy: str | None = None
