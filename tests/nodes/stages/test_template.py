"""Go's text/template, as far as stages need it: what a template renders to.

Mirrors Go 1.25 ``text/template/exec_test.go`` and ``parse_test.go`` in our own words, KWOK
``pkg/utils/gotpl/renderer_test.go``, and sprig's documentation.
"""

from collections.abc import Callable
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.nodes.stages.template import Template
from pilothouse.nodes.stages.template_syntax import TemplateError

DATA = {
    "name": "web",
    "count": 3,
    "part": 0.5,
    "yes": True,
    "empty": "",
    "items": [{"n": "a"}, {"n": "b"}],
    "labels": {"z": "1", "app/x": "2"},
    "nothing": None,
}
CONTEXT: dict[str, Callable[..., Any]] = {
    "Now": lambda: "2026-01-01T00:00:00Z",
    "NodePort": lambda: 10250,
    "PodIPWith": lambda *words: "/".join(map(str, words)),
}


@cases(
    "source, expected",
    {
        "text without actions": ("plain } text", "plain } text"),
        "fields": ("{{ .name }}-{{.count}}", "web-3"),
        "how values print": ("{{ .part }} {{ .yes }} {{ nil }}", "0.5 true <no value>"),
        "missing fields": ("{{ .none }} {{ .none.deeper.still }}", "<no value> <no value>"),
        "maps and lists": ("{{ .labels }} {{ .items }}", "map[app/x:2 z:1] [map[n:a] map[n:b]]"),
        "trimming": ("a {{- 1 -}} b", "a1b"),
        "comments": ("a {{- /* words */ -}} b{{/* more */}} c", "ab c"),
        "braces in a string": ('{{ "}}" }}', "}}"),
        "strings and raw strings": ('{{ "a\\tb" }}{{ `\\t` }}', "a\tb\\t"),
        "numbers": ("{{ -5 }} {{ 0x10 }} {{ 1.5 }}", "-5 16 1.5"),
        "if": ("{{ if .yes }}a{{ else }}b{{ end }}", "a"),
        "else if": ("{{ if .empty }}a{{ else if .yes }}b{{ else }}c{{ end }}", "b"),
        "if not": ("{{ if not .labels }}a{{ end }}", ""),
        "range": ("{{ range .items }}{{ .n }},{{ end }}", "a,b,"),
        "range with index": ("{{ range $i, $x := .items }}{{ $i }}{{ $x.n }}{{ end }}", "0a1b"),
        "map order": ("{{ range $k, $v := .labels }}{{ $k }}={{ $v }} {{ end }}", "app/x=2 z=1 "),
        "range over nothing": ("{{ range .none }}a{{ else }}b{{ end }}", "b"),
        "break and continue": (
            "{{ range until 5 }}{{ if eq . 1 }}{{ continue }}{{ end }}{{ if eq . 3 }}{{ break }}{{ end }}"
            "{{ . }}{{ end }}",
            "02",
        ),
        "with": ("{{ with .labels }}{{ .z }}{{ end }}{{ with .none }}a{{ else }}b{{ end }}", "1b"),
        "with a variable": ("{{ with $x := .name }}{{ $x }}{{ . }}{{ end }}", "webweb"),
        "assignment in an inner block": ("{{ $x := 1 }}{{ if .yes }}{{ $x = 2 }}{{ end }}{{ $x }}", "2"),
        "declaration does not": ("{{ $x := 1 }}{{ if .yes }}{{ $x := 2 }}{{ end }}{{ $x }}", "1"),
        "the root": ("{{ range .items }}{{ $.name }}{{ end }}", "webweb"),
        "or, and": ('{{ or .none "b" }} {{ and .name .count }} {{ or .none .empty }}', "b 3 "),
        "comparisons": (
            '{{ eq .name "x" "web" }} {{ ne .count 3 }} {{ lt 1 2 }} {{ ge 2 3 }}',
            "true false true false",
        ),
        "eq with nil": ('{{ eq .none "a" }} {{ eq .none .nothing }}', "false true"),
        "index": ('{{ index .labels "app/x" }} {{ index .items 1 "n" }}', "2 b"),
        "an absent key": ('{{ index .labels "none" }}', "<no value>"),
        "len, slice": ("{{ len .items }} {{ len .name }} {{ slice .name 1 2 }}", "2 3 e"),
        "printf": (
            '{{ printf "%s-%03d %q %v %5.1f%%" .name 7 "x" .items 1.25 }}',
            'web-007 "x" [map[n:a] map[n:b]]   1.2%',
        ),
        "pipes": ("{{ .name | printf `%s-%s` `a` | Quote }}", '"a-web"'),
        "parentheses": ("{{ (index .items 0).n }}{{ (printf `%s` .name) }}", "aweb"),
        "Quote is JSON in a string": (
            "{{ .count | Quote }} {{ .none | Quote }} {{ .items | Quote }}",
            '"3" "null" "[{\\"n\\":\\"a\\"},{\\"n\\":\\"b\\"}]"',
        ),
        "YAML with indent": ("x:\n  {{ YAML .labels 1 }}", "x:\n  \n  app/x: '2'\n  z: '1'\n  "),
        "context": ("{{ Now }} {{ with NodePort }}{{ . }}{{ end }}", "2026-01-01T00:00:00Z 10250"),
        "context with arguments": ("{{ PodIPWith .name ( or .none false ) | Quote }}", '"web/False"'),
        "sprig: default": ("{{ default `d` .empty }} {{ .name | default `d` }} {{ coalesce .none `` `c` }}", "d web c"),
        "sprig: numbers": (
            "{{ add 1 2 }} {{ sub 5 3 }} {{ mul 2 3 }} {{ div 7 2 }} {{ mod 7 3 }} {{ max 1 9 }}",
            "3 2 6 3 1 9",
        ),
        "sprig: strings": (
            "{{ .name | upper | trunc 2 }} {{ replace `w` `v` .name }} {{ join `,` (list 1 2) }}",
            "WE veb 1,2",
        ),
        "sprig: dict": ("{{ $d := dict `a` 1 }}{{ $d.a }} {{ hasKey $d `b` }} {{ ternary `y` `n` true }}", "1 false y"),
        "KWOK's or … dict": ("{{ $a := or .annotations dict }}{{ index $a `k` }}", "<no value>"),
    },
)
def test_template_output(source: str, expected: str) -> None:
    assert Template(source).render(DATA, CONTEXT) == expected


@cases(
    "source, place, reason",
    {
        "unknown function": ("a\n {{ frobnicate 1 }}", (2, 5), "function 'frobnicate' is not supported"),
        "unknown variable": ("{{ $x }}", (1, 4), "undefined variable '\\$x'"),
        "missing end of if": ("{{ if .a }}b", (1, 1), "has no {{end}}"),
        "end without if": ("{{ end }}", (1, 1), "unexpected {{end}}"),
        "an open action": ("{{ .a", (1, 1), "not closed"),
        "unsupported character": ("{{ .a @ }}", (1, 7), "'@' is not supported"),
        "an empty action": ("{{ }}", (1, 1), "missing value"),
        "a field is no function": ("{{ .a .b }}", (1, 4), "can't give an argument"),
        "a number is no function": ("{{ 1 | 2 }}", (1, 8), "can't give an argument"),
        "define": ('{{ define "x" }}{{ end }}', (1, 1), "is not supported"),
        "break outside": ("{{ break }}", (1, 1), "outside {{range}}"),
        "an open parenthesis": ("{{ (eq 1 }}", (1, 4), "unclosed parenthesis"),
    },
)
def test_unsupported_templates_are_rejected_when_loaded(source: str, place: tuple[int, int], reason: str) -> None:
    with pytest.raises(TemplateError, match=reason) as caught:
        Template(source)
    assert (caught.value.line, caught.value.column) == place


@cases(
    "source, place, reason",
    {
        "index of nothing": ("\n{{ index .none 0 }}", (1, 4), "index of nothing"),
        "out of range": ("a\n{{ index .items 5 }}", (2, 4), "index out of range: 5"),
        "a field of a string": ("{{ .name.first }}", (1, 4), "can't evaluate field first"),
        "strings and numbers": ("{{ eq .name 1 }}", (1, 4), "incompatible types"),
        "range over a string": ("{{ range .name }}{{ end }}", (1, 1), "can't iterate"),
        "division by zero": ("{{ div 1 0 }}", (1, 4), "divide by zero"),
        "too few arguments": ("{{ upper }}", (1, 4), "wrong arguments"),
        "a key of nothing": ('{{ get .none "x" }}', (1, 4), "wrong arguments"),
        "nil for a string": ('{{ trimPrefix "a" .none }}', (1, 4), "wrong arguments"),
        "empty separator": ('{{ splitList "" .name }}', (1, 4), "wrong arguments"),
        "infinity as int": ('{{ int "inf" }}', (1, 4), "wrong arguments"),
    },
)
def test_failures_are_reported_with_their_position(source: str, place: tuple[int, int], reason: str) -> None:
    template = Template(source)
    with pytest.raises(TemplateError, match=reason) as caught:
        template.render(DATA, CONTEXT)
    assert (caught.value.line, caught.value.column) == place
