"""Every list method of the official client, whose models are strict.

Prints ``{"lists": N, "items": {kind: count}}``; ends with an error that names each method whose answer was not decoded.
"""

import inspect
import json
import re
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

NS = "d1"
_METHOD = re.compile(r"^list_(?!.*_with_http_info$|.*_without_preload_content$)")


def main() -> None:
    """Run the scenario."""
    config.load_kube_config()
    problems: list[str] = []
    lists, items = 0, dict[str, int]()
    # Imported lazily: they are not in ``vars``.
    classes = [getattr(client, name) for name in dir(client) if re.fullmatch(r"\w+Api", name)]
    for api in classes:
        for name, method in inspect.getmembers(api(), inspect.ismethod):
            wanted = [p.name for p in inspect.signature(method).parameters.values() if p.default is p.empty]
            wanted = [argument for argument in wanted if argument != "kwargs"]
            if not _METHOD.match(name) or wanted not in ([], ["namespace"]):
                continue
            try:
                result: Any = method(*([NS] if wanted else []))
            except ApiException as error:
                if error.status == 404:  # versions that are off by default, and what only v1.37 has
                    continue
                problems.append(f"{api.__name__}.{name}: {error.status} {str(error.body)[:200]}")
                continue
            except Exception as error:  # noqa: BLE001  # each is a finding, and all are wanted
                problems.append(f"{api.__name__}.{name}: {type(error).__name__} {str(error)[:600]}")
                continue
            lists += 1
            kind = f"{result.api_version} {result.kind.removesuffix('List')}"
            items[kind] = max(items.get(kind, 0), len(result.items))
    assert not problems, "\n".join(problems)
    print(json.dumps({"lists": lists, "items": items}))


if __name__ == "__main__":
    main()
