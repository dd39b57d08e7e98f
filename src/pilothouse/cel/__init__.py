"""CEL: the expressions in CustomResourceDefinitions, admission policies and webhooks.

``environment`` compiles and evaluates with the library ``cel-expr-python`` (cel-cpp, whose type checker has the same
error messages as upstream's cel-go). ``schemas`` converts structural schemas to types, and values to the form of these
types. ``functions`` is Kubernetes' function library (k8s.io/apiserver ``pkg/cel/library``, v0.36).

The library is imported when the first expression is compiled, not by importing these modules: most servers have no
expressions, and it takes about 20 MB.
"""
