"""Scales a workload by the resource usage of its pods, or by any other metric.

Behaviour: every autoscaler is synced once per period. The size is between minReplicas and maxReplicas, and changes no
faster than the policies allow, counting only this controller's own changes. It is reduced only to the highest
recommendation of the stabilization window. A missing metric never scales a workload down: missing values are assumed to
be at the target or 0, whichever changes the size less. If a workload is scaled to 0 manually, its autoscaler is
disabled.

Not guaranteed: that the stabilization window survives a restart. As upstream, recommendations and changes are only kept
in memory; after a restart the current size is the first recommendation.

docs/controllers/horizontal_pod_autoscaler.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.autoscaling import HORIZONTAL_POD_AUTOSCALERS
from pilothouse.api.core import PODS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import DURATION, FLOAT, INT32
from pilothouse.runtime.descriptor import Descriptor, GateSpec
from pilothouse.runtime.watches import Watch, any_object


class HorizontalPodAutoscalerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options. The last three are upstream's gates ``HPAScaleToZero`` (off in v1.36), ``HPAConfigurableTolerance``
    and ``PodLevelResources`` (on). Durations are in seconds."""

    workers: int = 5
    sync_period: float = 15.0
    downscale_stabilization: float = 300.0
    tolerance: float = 0.1
    cpu_initialization_period: float = 300.0
    initial_readiness_delay: float = 30.0
    scale_to_zero: bool = False
    own_tolerance: bool = True
    pod_level_resources: bool = True


DESCRIPTOR = Descriptor(
    name="horizontal-pod-autoscaler-controller",
    aliases=("horizontalpodautoscaling",),
    client_name="horizontal-pod-autoscaler",
    options=HorizontalPodAutoscalerOptions,
    gate_fields=(
        GateSpec(field="scale_to_zero", gate="HPAScaleToZero"),
        GateSpec(field="own_tolerance", gate="HPAConfigurableTolerance"),
        GateSpec(field="pod_level_resources", gate="PodLevelResources"),
    ),
    flags=(
        flag_spec(
            "workers",
            "concurrent-horizontal-pod-autoscaler-syncs",
            INT32,
            5,
            "The number of horizontal pod autoscaler objects that are allowed to sync concurrently.",
        ),
        flag_spec(
            "cpu_initialization_period",
            "horizontal-pod-autoscaler-cpu-initialization-period",
            DURATION,
            300.0,
            "The period after pod start when CPU samples might be skipped.",
        ),
        flag_spec(
            "downscale_stabilization",
            "horizontal-pod-autoscaler-downscale-stabilization",
            DURATION,
            300.0,
            "The period for which autoscaler will look backwards and not scale down below any recommendation it "
            "made during that period.",
        ),
        flag_spec(
            "initial_readiness_delay",
            "horizontal-pod-autoscaler-initial-readiness-delay",
            DURATION,
            30.0,
            "The period after pod start during which readiness changes will be treated as initial readiness.",
        ),
        flag_spec(
            "sync_period",
            "horizontal-pod-autoscaler-sync-period",
            DURATION,
            15.0,
            "The period for syncing the number of pods in horizontal pod autoscaler.",
        ),
        flag_spec(
            "tolerance",
            "horizontal-pod-autoscaler-tolerance",
            FLOAT,
            0.1,
            "The minimum change (from 1.0) in the desired-to-actual metrics ratio for the horizontal pod "
            "autoscaler to consider scaling.",
        ),
    ),
    watches=(Watch(kind=HORIZONTAL_POD_AUTOSCALERS, keep_raw=True, predicate=any_object), Watch(kind=PODS)),
    package=__name__,
)
