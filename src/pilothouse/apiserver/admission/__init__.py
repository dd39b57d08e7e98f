"""Admission: ``chain`` runs the plugins, ``built_in`` creates them; each plugin is a module of this package."""
