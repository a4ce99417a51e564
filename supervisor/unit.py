"""The files that systemd wants for the service, as `tenured example` prints them and the folder systemd/ has them.

They are here, and not data beside the code, so that an installed wheel can print them wherever the shared package
`supervisor` comes from. They stand for an installation in /opt/tenured with the user `tenured`.
"""

from __future__ import annotations

UNIT = """\
# /etc/systemd/system/tenured.service, for an installation in /opt/tenured; docs/systemd.md is the way there.
# Changes of your own belong into a drop-in: systemctl edit tenured

[Unit]
Description=tenured, keeper of persistent WebSocket connections
# So that a stop at shutdown still has a network to close the connections and to release the leases.
After=network.target
# It never gives up: hosts are down together when the store is, and come back without anybody.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
User=tenured
Group=tenured
ExecStart=/opt/tenured/bin/tenured run -c /etc/tenured/tenured.ini
ExecReload=/bin/kill -HUP $MAINPID
# Variables such as TENURED_STORE or AWS_PROFILE, one NAME=VALUE a line.
EnvironmentFile=-/etc/tenured/environment
# A secret, readable by root alone, that the configuration names as ${credential:token}.
#LoadCredential=token:/etc/tenured/token

# `tenured drain` and every other planned stop exit 0, or 75 when a release was not confirmed, and stay stopped. 2 (the
# command line) and 78 (the configuration) do not mend themselves.
Restart=on-failure
SuccessExitStatus=75
RestartSec=500ms
RestartPreventExitStatus=2 78
# A start that was refused (an unfit store, a lock that is held, a permission that is missing) is tried again, but not
# twice a second.
ExecStopPost=/bin/sh -c 'case $$EXIT_STATUS in 69|71|73|77) sleep 5 ;; esac'
TimeoutStartSec=60s
# A longer stop_timeout extends it by itself.
TimeoutStopSec=30s
# The supervisor asks its children itself; what is left after it is killed.
KillMode=mixed
# Until the first lease is configured; then a third of lease_duration, by the supervisor itself.
WatchdogSec=30s
# A loop that hangs takes no other signal.
WatchdogSignal=SIGKILL
# A child that runs out of memory is started again by its supervisor. Children raise their score by 300, to that of
# everything else on the host.
OOMPolicy=continue
OOMScoreAdjust=-300

# state_dir and run_dir of the configuration
StateDirectory=tenured
StateDirectoryMode=0700
RuntimeDirectory=tenured
RuntimeDirectoryMode=0700
UMask=0077
# Sinks that write elsewhere:
#ReadWritePaths=/srv/events

LimitNOFILE=65536
LimitCORE=0
TasksMax=32768

# What it does not need. A handler that compiles at run time (numba, LuaJIT, some regular expressions) needs
# MemoryDenyWriteExecute=no in a drop-in.
CapabilityBoundingSet=
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
PrivateUsers=yes
ProtectHostname=yes
ProtectClock=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectProc=invisible
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
KeyringMode=private
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"""

SYSUSERS = """\
# /etc/sysusers.d/tenured.conf: the user of the service, without a home and a login.
u tenured - "tenured" - -
"""

TMPFILES = """\
# /etc/tmpfiles.d/tenured.conf: the configuration, readable by the service and by nobody else but root.
d /etc/tenured 0750 root tenured -
z /etc/tenured/*.ini 0640 root tenured -
"""
