"""The controllers, one package each; none imports another. ``registry`` lists them."""
