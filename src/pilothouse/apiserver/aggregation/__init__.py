"""APIServices, as kube-aggregator maintains them."""
