"""The controllers, one package each; none knows another. ``registry`` lists them."""
