"""``pilothouse ui``: prints a link to the page of a running ``pilothouse up --ui``."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from pilothouse.cli.clientside import command_connection, command_flags, common_flags
from pilothouse.cli.program import UserError, parse, serve
from pilothouse.client.errors import ApiError
from pilothouse.env import Env
from pilothouse.machinery.flags import FlagSet, Parsed

USAGE = """Prints a new link to the page of `pilothouse up --ui`. A link is good for one login, within 10 minutes.

Usage:
  {program} [flags]
"""


class _Link(msgspec.Struct):
    path: Annotated[str, msgspec.Meta(pattern=r"^/ui/#token=[\w-]{1,256}$")]


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    command_flags(flags, qps=50.0, burst=100)
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Print a link."""
    parsed = parse(flag_set(program), program, args)
    if isinstance(parsed, int):
        return parsed
    return serve(program, _run(parsed), v=parsed["v"])


async def _run(parsed: Parsed) -> int:
    async with command_connection(parsed, Env(), "pilothouse-ui") as (client, _info, _own):
        host = getattr(client.transport, "host", "")
        try:
            answer = await client.request("POST", "/ui/api/link")
            link = msgspec.json.decode(answer.body, type=_Link)
        except (ApiError, msgspec.DecodeError) as error:
            raise UserError(
                f"{host} gives no link to a page ({error}). Pages are served by `pilothouse up --ui`, "
                "`create cluster --ui` and `run --dev --ui`, and links are for the administrator, whose "
                "kubeconfig they write"
            ) from error
    print(f"https://{host}{link.path}")
    return 0
