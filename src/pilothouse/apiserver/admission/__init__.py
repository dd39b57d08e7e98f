"""Admission: ``chain`` is what the server runs, ``built_in`` makes its plugins, of which each is a module here."""
