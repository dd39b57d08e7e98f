"""Controllers of Services: Endpoints, EndpointSlices and ServiceCIDRs."""
