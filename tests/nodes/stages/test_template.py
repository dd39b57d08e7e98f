"""Go's text/template, as far as stages need it: what a template renders to.

Mirrors Go 1.25 ``text/template/exec_test.go`` and ``parse_test.go`` in our own words, KWOK
``pkg/utils/gotpl/renderer_test.go``, and sprig's documentation.
"""

from collections.abc import Callable
from typing import Any

import pytest

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


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("plain } text", "plain } text", id="text stays"),
        pytest.param("{{ .name }}-{{.count}}", "web-3", id="fields"),
        pytest.param("{{ .part }} {{ .yes }} {{ nil }}", "0.5 true <no value>", id="how values print"),
        pytest.param("{{ .none }} {{ .none.deeper.still }}", "<no value> <no value>", id="what is missing"),
        pytest.param("{{ .labels }} {{ .items }}", "map[app/x:2 z:1] [map[n:a] map[n:b]]", id="maps and lists"),
        pytest.param("a {{- 1 -}} b", "a1b", id="trimming"),
        pytest.param("a {{- /* words */ -}} b{{/* more */}} c", "ab c", id="comments"),
        pytest.param('{{ "}}" }}', "}}", id="braces in a string"),
        pytest.param('{{ "a\\tb" }}{{ `\\t` }}', "a\tb\\t", id="strings and raw strings"),
        pytest.param("{{ -5 }} {{ 0x10 }} {{ 1.5 }}", "-5 16 1.5", id="numbers"),
        pytest.param("{{ if .yes }}a{{ else }}b{{ end }}", "a", id="if"),
        pytest.param("{{ if .empty }}a{{ else if .yes }}b{{ else }}c{{ end }}", "b", id="else if"),
        pytest.param("{{ if not .labels }}a{{ end }}", "", id="what is not empty is true"),
        pytest.param("{{ range .items }}{{ .n }},{{ end }}", "a,b,", id="range"),
        pytest.param("{{ range $i, $x := .items }}{{ $i }}{{ $x.n }}{{ end }}", "0a1b", id="range with index"),
        pytest.param("{{ range $k, $v := .labels }}{{ $k }}={{ $v }} {{ end }}", "app/x=2 z=1 ", id="map order"),
        pytest.param("{{ range .none }}a{{ else }}b{{ end }}", "b", id="range over nothing"),
        pytest.param(
            "{{ range until 5 }}{{ if eq . 1 }}{{ continue }}{{ end }}{{ if eq . 3 }}{{ break }}{{ end }}"
            "{{ . }}{{ end }}", "02", id="break and continue",
        ),
        pytest.param("{{ with .labels }}{{ .z }}{{ end }}{{ with .none }}a{{ else }}b{{ end }}", "1b", id="with"),
        pytest.param("{{ with $x := .name }}{{ $x }}{{ . }}{{ end }}", "webweb", id="with a variable"),
        pytest.param("{{ $x := 1 }}{{ if .yes }}{{ $x = 2 }}{{ end }}{{ $x }}", "2", id="assignment goes outwards"),
        pytest.param("{{ $x := 1 }}{{ if .yes }}{{ $x := 2 }}{{ end }}{{ $x }}", "1", id="declaration does not"),
        pytest.param("{{ range .items }}{{ $.name }}{{ end }}", "webweb", id="the root"),
        pytest.param('{{ or .none "b" }} {{ and .name .count }} {{ or .none .empty }}', "b 3 ", id="or, and"),
        pytest.param('{{ eq .name "x" "web" }} {{ ne .count 3 }} {{ lt 1 2 }} {{ ge 2 3 }}', "true false true false",
                     id="comparisons"),
        pytest.param('{{ eq .none "a" }} {{ eq .none .nothing }}', "false true", id="nothing equals nothing only"),
        pytest.param('{{ index .labels "app/x" }} {{ index .items 1 "n" }}', "2 b", id="index"),
        pytest.param('{{ index .labels "none" }}', "<no value>", id="an absent key"),
        pytest.param("{{ len .items }} {{ len .name }} {{ slice .name 1 2 }}", "2 3 e", id="len, slice"),
        pytest.param('{{ printf "%s-%03d %q %v %5.1f%%" .name 7 "x" .items 1.25 }}',
                     'web-007 "x" [map[n:a] map[n:b]]   1.2%', id="printf"),
        pytest.param("{{ .name | printf `%s-%s` `a` | Quote }}", '"a-web"', id="pipes"),
        pytest.param("{{ (index .items 0).n }}{{ (printf `%s` .name) }}", "aweb", id="parentheses"),
        pytest.param("{{ .count | Quote }} {{ .none | Quote }} {{ .items | Quote }}",
                     '"3" "null" "[{\\"n\\":\\"a\\"},{\\"n\\":\\"b\\"}]"', id="Quote is JSON in a string"),
        pytest.param("x:\n  {{ YAML .labels 1 }}", "x:\n  \n  app/x: '2'\n  z: '1'\n  ", id="YAML with indent"),
        pytest.param("{{ Now }} {{ with NodePort }}{{ . }}{{ end }}", "2026-01-01T00:00:00Z 10250", id="context"),
        pytest.param("{{ PodIPWith .name ( or .none false ) | Quote }}", '"web/False"', id="context with arguments"),
        pytest.param("{{ default `d` .empty }} {{ .name | default `d` }} {{ coalesce .none `` `c` }}", "d web c",
                     id="sprig: default"),
        pytest.param("{{ add 1 2 }} {{ sub 5 3 }} {{ mul 2 3 }} {{ div 7 2 }} {{ mod 7 3 }} {{ max 1 9 }}",
                     "3 2 6 3 1 9", id="sprig: numbers"),
        pytest.param("{{ .name | upper | trunc 2 }} {{ replace `w` `v` .name }} {{ join `,` (list 1 2) }}",
                     "WE veb 1,2", id="sprig: strings"),
        pytest.param("{{ $d := dict `a` 1 }}{{ $d.a }} {{ hasKey $d `b` }} {{ ternary `y` `n` true }}", "1 false y",
                     id="sprig: dict"),
        pytest.param("{{ $a := or .annotations dict }}{{ index $a `k` }}", "<no value>", id="KWOK's or … dict"),
    ],
)  # fmt: skip
def test_what_a_template_renders_to(source: str, expected: str) -> None:
    assert Template(source).render(DATA, CONTEXT) == expected


@pytest.mark.parametrize(
    ("source", "place", "reason"),
    [
        pytest.param("a\n {{ frobnicate 1 }}", (2, 5), "function 'frobnicate' is not supported", id="unknown function"),
        pytest.param("{{ $x }}", (1, 4), "undefined variable '\\$x'", id="unknown variable"),
        pytest.param("{{ if .a }}b", (1, 1), "has no {{end}}", id="no end"),
        pytest.param("{{ end }}", (1, 1), "unexpected {{end}}", id="end without if"),
        pytest.param("{{ .a", (1, 1), "not closed", id="an open action"),
        pytest.param("{{ .a @ }}", (1, 7), "'@' is not supported", id="a strange sign"),
        pytest.param("{{ }}", (1, 1), "missing value", id="an empty action"),
        pytest.param("{{ .a .b }}", (1, 4), "can't give an argument", id="a field is no function"),
        pytest.param("{{ 1 | 2 }}", (1, 8), "can't give an argument", id="a number is no function"),
        pytest.param('{{ define "x" }}{{ end }}', (1, 1), "is not supported", id="define"),
        pytest.param("{{ break }}", (1, 1), "outside {{range}}", id="break outside"),
        pytest.param("{{ (eq 1 }}", (1, 4), "unclosed parenthesis", id="an open parenthesis"),
    ],
)
def test_what_is_not_supported_is_said_when_it_is_read(source: str, place: tuple[int, int], reason: str) -> None:
    with pytest.raises(TemplateError, match=reason) as caught:
        Template(source)
    assert (caught.value.line, caught.value.column) == place


@pytest.mark.parametrize(
    ("source", "place", "reason"),
    [
        pytest.param("\n{{ index .none 0 }}", (1, 4), "index of nothing", id="index of nothing"),
        pytest.param("a\n{{ index .items 5 }}", (2, 4), "index out of range: 5", id="out of range"),
        pytest.param("{{ .name.first }}", (1, 4), "can't evaluate field first", id="a field of a string"),
        pytest.param("{{ eq .name 1 }}", (1, 4), "incompatible types", id="strings and numbers"),
        pytest.param("{{ range .name }}{{ end }}", (1, 1), "can't iterate", id="range over a string"),
        pytest.param("{{ div 1 0 }}", (1, 4), "divide by zero", id="division by zero"),
        pytest.param("{{ upper }}", (1, 4), "wrong arguments", id="too few arguments"),
        pytest.param('{{ get .none "x" }}', (1, 4), "wrong arguments", id="a key of nothing"),
        pytest.param('{{ trimPrefix "a" .none }}', (1, 4), "wrong arguments", id="nothing for a string"),
        pytest.param('{{ splitList "" .name }}', (1, 4), "wrong arguments", id="no separator"),
        pytest.param('{{ int "inf" }}', (1, 4), "wrong arguments", id="no end"),
    ],
)
def test_what_fails_is_said_with_its_place(source: str, place: tuple[int, int], reason: str) -> None:
    template = Template(source)
    with pytest.raises(TemplateError, match=reason) as caught:
        template.render(DATA, CONTEXT)
    assert (caught.value.line, caught.value.column) == place
