"""``--admission-control-config-file``: settings of admission plugins, in the form that kube-apiserver takes.

After apiserver's ``pkg/admission/config.go`` (v0.36). Of the plugins here only PodSecurity has settings.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse.cli.program import UserError
from pilothouse.env.lazy import lazy_imports

if TYPE_CHECKING:
    from pilothouse.apiserver.admission.pod_security.levels import PodSecurityOptions

with lazy_imports():
    from pilothouse.apiserver.admission.pod_security import configuration, levels
    from pilothouse.controllermanager import yaml_file

FLAG = "admission-control-config-file"
HELP = "File with admission control configuration"


def pod_security_of(path: str) -> "PodSecurityOptions":
    """The PodSecurity configuration of the file; the defaults if there is none. Raises ``UserError``."""
    if not path:
        return levels.PodSecurityOptions()
    try:
        document = yaml_file.read_mapping(path)
        if document.get("kind") != "AdmissionConfiguration":
            raise ValueError(f"expected an AdmissionConfiguration, got {document.get('kind')}")
        configuration_options = levels.PodSecurityOptions()
        for plugin in document.get("plugins") or ():
            if plugin.get("name") != "PodSecurity":
                print(
                    f"warning: the configuration of the admission plugin {plugin.get('name')} has no effect",
                    file=sys.stderr,
                )
                continue
            settings: Any = plugin.get("configuration")
            if settings is None and plugin.get("path"):
                settings = yaml_file.read_mapping(str(Path(path).parent / plugin["path"]))
            if settings is not None:
                configuration_options = configuration.to_pod_security_options(settings)
        return configuration_options
    except OSError as error:
        raise UserError(f"failed to read plugin config: --{FLAG} {path}: {error.strerror}", code=2) from error
    except (ValueError, AttributeError) as error:
        raise UserError(f"failed to read plugin config: --{FLAG} {path}: {error}", code=2) from error
