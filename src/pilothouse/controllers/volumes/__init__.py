"""Controllers of PersistentVolumeClaims, PersistentVolumes and their attachments."""
