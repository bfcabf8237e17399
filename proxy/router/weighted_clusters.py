"""Which of several clusters a request goes to, by weight, and the header operations that come with it.

Made ready once per route; chosen once per request, so that retries stay with the cluster. Ports
`WeightedClusterSpecifierPlugin::pickWeightedCluster` (Envoy, source/common/router/weighted_cluster_specifier.cc).
"""

from bisect import bisect_right
from itertools import accumulate

import attrs

from proxy.config.route_config import Route
from proxy.router.header_operations import HeaderEdits, compile_operations


@attrs.frozen
class ClusterChoice:
    """One cluster by name; edits are its own and then the route's, None where neither has any."""

    cluster: str
    request_edits: HeaderEdits | None
    response_edits: HeaderEdits | None


class WeightedClusters:
    """The clusters of one route.

    Args:
        route: Its action has one cluster, or several of which at least one has a weight above 0.
    """

    __slots__ = ("_choices", "_ends", "_total")

    def __init__(self, route: Route) -> None:
        weighted = route.action.weighted_clusters
        self._choices = tuple(
            ClusterChoice(
                entry.cluster,
                compile_operations(entry.request_headers, route.request_headers),
                compile_operations(entry.response_headers, route.response_headers),
            )
            for entry in weighted
        ) or (
            ClusterChoice(
                route.action.cluster,
                compile_operations(route.request_headers),
                compile_operations(route.response_headers),
            ),
        )
        self._ends = tuple(accumulate(entry.weight for entry in weighted)) or (1,)
        self._total = self._ends[-1]
        assert self._total > 0

    @property
    def only(self) -> ClusterChoice | None:
        """The choice that needs no random number, if there is but one."""
        return self._choices[0] if len(self._choices) == 1 else None

    def choose(self, random_value: int) -> ClusterChoice:
        """Return the cluster in whose interval `random_value`, modulo the sum of the weights, falls."""
        return self._choices[bisect_right(self._ends, random_value % self._total)]
