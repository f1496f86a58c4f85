"""Which nodes claims rest on: the reported one, its replicates, the ablations, and code that ignores its seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from record.fold.state import RunState
from record.nouns.measurements import Measurement, Split
from record.nouns.nodes import Node


def replicates_of(state: RunState, node: str) -> list[Node]:
    """The replicates of a node, failed ones included."""
    return [one for one in state.nodes.values() if one.kind == "replicate" and one.parent == node]


def trusted_replicates(state: RunState, node: str) -> list[Node]:
    """The replicates that claims may rest on: none of a suspect node, and none that is suspect itself."""
    if node in state.nodes and state.nodes[node].suspect:
        return []
    return [one for one in replicates_of(state, node) if not one.suspect]


def same_values(replicates: Iterable[Node], tests: Mapping[str, Sequence[Measurement]] | None = None) -> bool:
    """Whether at least two good replicates measured, and all measured the same values: their code ignores its seed.

    Right for a deterministic method, and never a measure of noise: an sd of 0 here is no noise of 0. Where values are
    few and coarse (accuracy on a small split), seeds may agree by chance. `tests` are scored test values by node.
    """
    found: dict[tuple[str, str, str, Split], list[float]] = defaultdict(list)
    for node in replicates:
        if node.status == "good":
            for one in (*node.measurements, *(tests or {}).get(node.id, ())):
                found[one.name, one.dataset, one.condition, one.split].append(one.value)
    return any(len(values) > 1 for values in found.values()) and all(len(set(v)) == 1 for v in found.values())


def ignores_seed(state: RunState, node: str) -> bool:
    """`same_values` of a node's replicates, test values included once they are scored."""
    return same_values(replicates_of(state, node), state.tests)


def seedless(state: RunState) -> tuple[str, ...]:
    """All replicated nodes whose code ignores its seed."""
    replicated = dict.fromkeys(one.parent for one in state.nodes.values() if one.kind == "replicate")
    return tuple(node for node in replicated if node in state.nodes and ignores_seed(state, node))


def winner(state: RunState) -> str | None:
    """The node that the paper reports: the best of the last stage that found one before ablation.

    One that is not suspect, while there is any; of a suspect winner nothing is claimed.
    """
    found = [best for stage in ("agenda", "tuning", "preliminary") if (best := state.stages[stage].best) is not None]
    trusted = (best for best in found if best not in state.nodes or not state.nodes[best].suspect)
    return next(trusted, found[0] if found else None)


def ablations(state: RunState) -> list[Node]:
    """The good nodes of the ablation stage that stand for an ablated part."""
    return [node for node in state.stage_nodes("ablation")
            if node.kind in ("ablate", "debug") and node.status == "good" and not node.suspect]
