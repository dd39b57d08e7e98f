"""The names of the commands and what each does, for the help and for what is generated from it."""

COMMANDS = {
    "up": "run API server, manager, scheduler and simulated nodes in one process",
    "manager": "run the controllers against any API server (kube-controller-manager's flags)",
    "apiserver": "run the embedded API server alone",
    "scheduler": "run the scheduler against any API server",
    "nodes": "run simulated nodes against any API server",
    "new": "write the project of a new operator",
    "run": "run an operator against any API server",
    "generate": "print the manifests of an operator",
    "get": "print objects, also as they were at an earlier time",
    "history": "print the changes of an object, also of one that is gone",
    "why": "explain why an object is as it is, or is gone",
    "snapshot": "save a cluster into a file, and restore it",
    "top": "show the cluster on the screen of a terminal",
    "ui": "print a link to the page of `up --ui`",
    "envtest-assets": "create a directory for KUBEBUILDER_ASSETS, for test suites in any language",
    "completion": "print a completion script for bash, zsh or fish",
    "man": "print a manual page",
    "version": "print the version",
}
