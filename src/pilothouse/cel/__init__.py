"""CEL: the expressions in definitions of custom resources, admission policies and webhooks.

``environment`` compiles and evaluates, by the library ``cel-expr-python`` (cel-cpp, the sister of the cel-go that
upstream uses: the same checker, the same words in its errors). ``schemas`` gives the checker the types that a
structural schema declares, and values the form that it expects. ``functions`` is Kubernetes' own function library
(k8s.io/apiserver ``pkg/cel/library``, v0.36).

The library is imported when the first expression is compiled, never by importing these modules: most servers see
none, and it takes some 20 MB.
"""
