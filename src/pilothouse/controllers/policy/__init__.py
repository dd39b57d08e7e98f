"""Controllers of what others must respect: disruption budgets."""
