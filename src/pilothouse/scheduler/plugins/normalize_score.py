"""How raw scores become scores from 0 to 100 (kube-scheduler v1.36 ``plugins/helper/normalize_score.go``). Pure."""

from collections.abc import Sequence

MAX_NODE_SCORE = 100


def default_normalize_score(scores: Sequence[int], *, reverse: bool = False) -> list[int]:
    """Scale to 0 to 100 in proportion to the highest score; ``reverse`` where lower is better."""
    highest = max(scores, default=0)
    if not highest:
        return [MAX_NODE_SCORE if reverse else score for score in scores]
    if reverse:
        return [MAX_NODE_SCORE - MAX_NODE_SCORE * score // highest for score in scores]
    return [MAX_NODE_SCORE * score // highest for score in scores]
