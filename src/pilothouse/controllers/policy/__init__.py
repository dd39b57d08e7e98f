"""Controllers of policies: disruption budgets, quotas, admission policies."""
