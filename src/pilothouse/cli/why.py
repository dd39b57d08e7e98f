"""``pilothouse why``: why an object is as it is, or is gone."""

from collections.abc import Sequence

import msgspec

from pilothouse.cli.clientside import common_flags, connected, connection_flags
from pilothouse.cli.program import UserError, serve
from pilothouse.cli.resource_arguments import find_resource, parse_for_object, type_and_name
from pilothouse.cli.terminal import escaped, escaped_json
from pilothouse.client.errors import ApiError
from pilothouse.env import Env
from pilothouse.machinery.flags import STRING, STRINGS, Flag, FlagSet, Parsed
from pilothouse.why import NOT_FOUND, Reference, ServerEvidence, explain, text_lines

USAGE = """Explains why an object is as it is: deleted, pending, not ready, terminating, created. It follows the changes
that led there back to the act or the fault that began it.

Usage:
  {program} TYPE/NAME [flags]
"""


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "why",
        Flag("namespace", STRING, "default", "Namespace of the object", shorthand="n"),
        Flag("output", STRING, "text", "Output format: text or json", shorthand="o"),
        Flag(
            "trusted-users",
            STRINGS,
            (),
            "Users whose causes are believed, in addition to Kubernetes' components, for example the service accounts "
            "of operators that are run with pilothouse",
        ),
    )
    connection_flags(flags, qps=200.0, burst=400)
    common_flags(flags)
    return flags


def run(program: str, words: Sequence[str]) -> int:
    """Print the explanation."""
    parsed = parse_for_object(flag_set(program), program, words)
    return parsed if isinstance(parsed, int) else serve(program, _run(parsed), v=parsed["v"])


async def _run(parsed: Parsed) -> int:
    text, name = type_and_name(parsed.arguments)
    async with connected(parsed, Env(), "pilothouse-why") as client:
        try:
            discovery = await client.discover()
            resource = find_resource(discovery, text)
            namespace = parsed["namespace"] if resource.namespaced else ""
            reference = Reference(resource.group_resource, namespace, name)
            explanation = await explain(
                ServerEvidence(client, discovery, trusted_users=parsed["trusted-users"]), reference
            )
        except ApiError as error:
            raise UserError(str(error)) from error
    if parsed["output"] == "json":
        print(escaped_json(msgspec.json.format(msgspec.json.encode(explanation), indent=2).decode()))
    else:
        print("\n".join(map(escaped, text_lines(explanation))))
    return 1 if explanation.state == NOT_FOUND else 0
