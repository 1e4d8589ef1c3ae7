"""Faults of disks, file systems, clocks and power, for tests of stores.

```python
layer = Layer(folder, Plan([Fault(operation="fsync", errno=errno.EIO, nth=3)]))
with layer.installed():
    ...  # what the store does below `folder` from now on
```

A process that a test starts installs the faults it finds in its environment:
`environment(folder, faults)` is what to add to it, `install_from_environ()` what to call.
"""

from __future__ import annotations

from nbrewind.testing.faults.environ import environment, install_from_environ
from nbrewind.testing.faults.layer import Layer
from nbrewind.testing.faults.plan import Effect, Fault, Operation, Plan
from nbrewind.testing.faults.power import Journal, restore
from nbrewind.testing.faults.workload import Expected, Workload, check_promises

__all__ = [
    "Effect",
    "Expected",
    "Fault",
    "Journal",
    "Layer",
    "Operation",
    "Plan",
    "Workload",
    "check_promises",
    "environment",
    "install_from_environ",
    "restore",
]
