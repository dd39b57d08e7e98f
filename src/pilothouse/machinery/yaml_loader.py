"""The loader for YAML from files: libyaml's where there is one, with a limit of the depth.

libyaml's parser recurses in C for each level: a text of ``[`` repeated 100,000 times ends the process.
"""

import yaml

from pilothouse.machinery.json_bounds import MAX_DEPTH


def yaml_error_text(error: yaml.YAMLError) -> str:
    """Position and reason of the error, in one line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {error.problem}"
    if isinstance(error, yaml.reader.ReaderError):
        return f"position {error.position}: {error.reason}"
    return " ".join(str(error).split())


class BoundedLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen at run time
    """A safe loader. Nodes that are nested too deeply are a ``ComposerError``."""

    _depth = 0

    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:
        """Called before each node is composed."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            mark = current_node.start_mark if current_node is not None else None
            raise yaml.composer.ComposerError(None, None, "it is nested too deeply", mark)
        super().descend_resolver(current_node, current_index)

    def ascend_resolver(self) -> None:
        """Called after each node is composed."""
        super().ascend_resolver()
        self._depth -= 1
