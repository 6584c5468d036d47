"""Prints tests/parity/jinja/constructs.json: small templates that cover each construct, filter, test,
method and function, with what jinja2 makes of them. Needs jinja2 (made with 3.1.6).

    python3 tests/parity/jinja/constructs.py > tests/parity/jinja/constructs.json
"""

import json

import jinja2
from templates import environment

VALUES = {
    "n": 3, "f": 2.5, "big": 123456789012345678, "yes": True, "no": False, "nil": None,
    "s": "Hello, World", "u": "żÓłw ß ǆ é\u00a0🙂", "q": "it's \"x\"\n\t\\", "sp": "  a b  c\n", "empty": "",
    "xs": [3, 1, 2, 1], "ws": ["b", "A", "c", "a"], "mixed": [1, 2.0, "x", None, True, ["y"], {"k": "v"}],
    "d": {"b": 1, "a": {"c": [1, 2]}, "items": "hidden", "x y": 0.1},
    "people": [{"name": "Eva", "age": 31, "tag": {"v": 1}}, {"name": "bo", "age": 29, "tag": {"v": 0}}, {"name": "Al", "age": 31}],
    "html": "<a href='x'>&\"</a>", "floats": [0.1, 1.0, 1e16, 1e-5, 1.5e300, -0.0, 123456.789, 100.0, 1e22, 5e-324],
    "control": "\u0000\u001f\u007f\u200b\u2028\ue000", "lines": "one\n\n  two\r\nthree\u2028four\n", "json": '{"a": [1, 2.50, "x"]}',
}  # fmt: skip

TEMPLATES = r"""
{{ n + 2 * 3 - 1 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 5 }} {{ -n }} {{ +n }} {{ f * 2 }}
{{ (1 + 2) ~ 3 * 4 }} {{ 'a' ~ 1 ~ nil ~ yes ~ f ~ xs }} {{ not n }} {{ not not n }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 >= 2 != 1 }} {{ 1 == 1.0 == true }} {{ 'a' < 'b' <= 'b' }}
{{ n in xs }} {{ 9 not in xs }} {{ 'ell' in s }} {{ 'a' in d }} {{ nil in mixed }} {{ ['y'] in mixed }}
{{ s[0] }}{{ s[-1] }}{{ s[1:3] }}{{ s[:-2] }}{{ s[::-1] }}{{ s[::2] }}{{ u[1:4] }}{{ u[::-1] }}{{ s[99] }}
{{ xs[1:] }} {{ xs[:1] }} {{ xs[::-1] }} {{ xs[-1] }} {{ xs[10] }} {{ xs[3:0:-2] }} {{ (1, 2, 3)[1:] }}
{{ d.a.c[1] }} {{ d['a']['c'] }} {{ d['x y'] }} {{ d.nothing }} {{ d['items'] }} {{ xs.0 }} {{ people.0.name }}
{{ 'a' if n > 2 else 'b' }} {{ 'a' if n > 5 }} {{ 'a' if no else 'b' if no else 'c' }} {{ (1 if yes else 2) + 1 }}
{{ [1, 'a', [2]] }} {{ {'a': 1, 'b': {'c': none}} }} {{ (1,) }} {{ () }} {{ [] }} {{ {} }} {{ (1, 'x') }} {{ [1, 2,] }} {{ {'a': 1, 'a': 2} }}
{{ 1.5 }} {{ 1e3 }} {{ 1_000 }} {{ floats }} {{ big }} {{ big + 1 }} {{ 10 ** 15 }} {{ 0.1 + 0.2 }} {{ 1.0 * 3 }}
{{ q }} {{ [q] }} {{ [u] }} {{ [control] }} {{ ["it's"] }} {{ ['"'] }} {{ mixed }} {{ d }}
{{ 'tab\tnew\nquote\'' }} {{ "\x41\u00e9" }} {{ 'a' 'b' "c" }}
{{ nothing }}|{{ nothing is defined }}|{{ nothing | default('x') }}|{{ empty | default('x') }}|{{ empty | default('x', true) }}|{{ nil | d('y', boolean=true) }}
{{ s | upper }} {{ s | lower }} {{ u | upper }} {{ u | lower }} {{ u | title }} {{ u | capitalize }} {{ 'hello wORLD-foo (bar' | title }} {{ 'hELLO' | capitalize }}
[{{ sp | trim }}] [{{ 'xxaxx' | trim('x') }}] {{ s | length }} {{ u | length }} {{ xs | length }} {{ d | count }} {{ n | string ~ 1 }}
{{ s | replace('l', 'L') }} {{ s | replace('l', 'L', 1) }} {{ 'aaa' | replace('', '-') }} {{ 'abab' | replace('ab', '') }} {{ s.replace('o', '0') }}
{{ xs | join }} {{ xs | join(', ') }} {{ people | join('; ', attribute='name') }} {{ s | join('.') }} {{ ', '.join(ws) }}
{{ lines | indent }}|{{ lines | indent(2, true) }}|{{ lines | indent(2, blank=true) }}|{{ lines | indent('> ', first=true) }}|{{ 'a\nb\n' | indent(1) }}
{{ d | tojson }} {{ mixed | tojson }} {{ q | tojson }} {{ u | tojson }} {{ u | tojson(ensure_ascii=true) }} {{ control | tojson }} {{ html | tojson }}
{{ d | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ {} | tojson(indent=2) }} {{ [[1], {}] | tojson(indent=1) }}
{{ d | tojson(separators=(',', ':')) }} {{ d | tojson(sort_keys=true) }} {{ floats | tojson }} {{ (1, 2) | tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }}
{{ xs | first }} {{ xs | last }} {{ s | first }} {{ [] | first }} {{ d | first }} {{ d | last }} {{ xs | min }} {{ xs | max }} {{ ws | min }} {{ ws | max }} {{ [] | max }}
{{ xs | sort }} {{ xs | sort(reverse=true) }} {{ ws | sort }} {{ ws | sort(case_sensitive=true) }} {{ people | sort(attribute='age') | map(attribute='name') | list }}
{{ xs | unique | list }} {{ ws | unique | list }} {{ ['a', 'A'] | unique(true) | list }} {{ people | unique(attribute='age') | map(attribute='name') | list }}
{{ d.items() | list }} {{ d | items | list }} {{ d | dictsort }} {{ {'b': 1, 'A': 2} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(true) }} {{ {'b': 1, 'A': 2} | dictsort(by='value', reverse=true) }}
{{ xs | list }} {{ s | list }} {{ d | list }} {{ xs | reverse | list }} {{ 'abc' | reverse }} {{ nothing | list }} {{ nothing | length }}
{{ people | selectattr('tag') | map(attribute='name') | list }} {{ people | rejectattr('tag') | map(attribute='name') | list }} {{ people | selectattr('age', 'equalto', 31) | map(attribute='name') | join(' ') }}
{{ people | selectattr('tag', 'defined') | list | length }} {{ people | rejectattr('age', 'gt', 30) | list }} {{ people | map(attribute='tag', default='?') | list }}
{{ xs | select('odd') | list }} {{ xs | reject('odd') | list }} {{ mixed | select | list }} {{ mixed | reject | list }} {{ mixed | select('string') | list }} {{ ws | map('upper') | list }} {{ xs | map('string') | join }}
{{ mixed | map('tojson') | join(' ') }} {{ ws | map('replace', 'a', 'z') | list }} {{ people | map(attribute='name') | map('lower') | list }} {{ nil | selectattr('x') | list }}
{{ '12' | int }} {{ ' 3 ' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ '3.7' | int }} {{ yes | int }} {{ '2.5' | float }} {{ 'x' | float }} {{ 3 | float }} {{ -3 | abs }} {{ -2.5 | abs }}
{{ html | safe }} {{ '<b>' | safe + html }} {{ html + ('<i>' | safe) }} {{ ('a' | safe) ~ html }} {{ json | from_json }} {{ (json | from_json).a[1] }}
{{ n is defined }}{{ n is number }}{{ n is integer }}{{ f is float }}{{ yes is boolean }}{{ yes is true }}{{ no is false }}{{ n is true }}{{ nil is none }}{{ s is string }}{{ d is mapping }}{{ xs is sequence }}{{ s is iterable }}{{ n is iterable }}{{ d is sequence }}{{ yes is number }}{{ yes is integer }}{{ nothing is undefined }}{{ range is callable }}
{{ n is odd }} {{ n is even }} {{ n is divisibleby 3 }} {{ n is eq 3 }} {{ n is ne(3) }} {{ n is lt 4 }} {{ n is le 3 }} {{ n is gt 4 }} {{ n is ge 3 }} {{ n is equalto 3 }} {{ n is in xs }} {{ n is not in [1] }} {{ n is not none }}
{{ s.split(', ') }} {{ sp.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'aXbX'.split('X') }} {{ ''.split(',') }} {{ ''.split() }} {{ ' a b '.split(none, 1) }} {{ lines.splitlines() }}
[{{ sp.strip() }}] [{{ sp.lstrip() }}] [{{ sp.rstrip() }}] {{ 'xyax'.strip('xy') }} {{ 'xyax'.lstrip('xy') }} {{ 'xyax'.rstrip('xy') }} {{ s.startswith('Hell') }} {{ s.endswith(('x', 'ld')) }} {{ s.find('o') }} {{ s.find('z') }} {{ u.find('🙂') }}
{{ '{} and {}'.format(1, 'b') }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{x}-{{}}'.format(x=xs) }} {{ s.upper() }} {{ s.lower() }} {{ 'aB'.capitalize() }}
{{ d.get('b') }} {{ d.get('z') }} {{ d.get('z', 'w') }} {{ d.keys() | list }} {{ d.values() | list }} {{ d.items is defined }} {{ d.keys() | length }}
{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% for x in xs if x > 1 %}{{ x }}{{ loop.last }}{% else %}none{% endfor %}{% for x in [] %}x{% else %}none{% endfor %}{% for x in xs if x > 9 %}{% else %}none{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }};{% endfor %}
{% for c in 'aé🙂' %}[{{ c }}]{% endfor %}{% for i in range(3) %}{{ i }}{% endfor %}{% for i in range(5, 0, -2) %}{{ i }}{% endfor %}
{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% for k in range(3) %}{% if k == 1 %}{% break %}{% endif %}.{% endfor %}{% endfor %}
{% set x = 1 %}{% for i in xs %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}{% if yes %}{% set x = 9 %}{% endif %}{{ x }}
{% for i in range(2) %}{% if i == 0 %}{% set z = i %}{% endif %}{{ z is defined }}{% for k in range(2) %}{{ z }}{% set z = 'k' %}{{ z }}{% endfor %}{{ z }}{% endfor %}{{ z is defined }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, e) = xs[:2] %}{{ c }}{{ e }}{% set t = 1, %}{{ t }}
{% set ns = namespace(a=1, b=none) %}{% for i in xs %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}{% set ns.c = 'x' %}{{ ns['c'] }}{{ dict(a=1) }}
{% set t %}in {{ n }}{% set inner = 1 %}{% endset %}[{{ t }}]{{ inner is defined }}{% set t | upper | trim %} ab {% endset %}[{{ t }}]
{% macro m(a, b=2, c=a) %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c=4) }}{{ m(b=5, a=6) }}{{ m() }}{{ m('x') | length }}
{% set g = 1 %}{% macro m() %}{{ g }}{{ later }}{% set g = 5 %}{{ g }}{% endmacro %}{{ m() }}{% set g = 2 %}{% set later = 'L' %}{{ m() }}{{ g }}{% for g in [7] %}{{ m() }}{% endfor %}
{% macro f(x) %}{% if x %}{{ x[0] }}{{ f(x[1:]) }}{% endif %}{% endmacro %}{{ f('abc') }}{{ f(xs) }}
{% macro wrap(t) %}<{{ t }}>{{ caller(t, 2) }}</{{ t }}>{% endmacro %}{% for i in [1, 2] %}{% call(a, b) wrap('p') %}{{ i }}{{ a }}{{ b }}{% endcall %}{% endfor %}
{% macro opt() %}{{ caller() if caller else 'none' }}{% endmacro %}{{ opt() }}{% call opt() %}some{% endcall %}
{% filter upper %}a{{ s }}{% filter replace('L', '1') %}l{% endfilter %}{% endfilter %}{% filter indent(2) %}a¶b{% endfilter %}
{% generation %}a{{ n }}{% set gg = 1 %}{% endgeneration %}{{ gg is defined }}
{% set it = xs | map('string') %}{{ it | list }}{{ it | list }}{% if it %}true{% endif %}{% set ch = xs | select('odd') %}{{ ch | first }}
{{ strftime_now('%Y-%m-%d') | length }}{{ raise_exception('no: ' ~ n) if no else 'ok' }}
{{ xs + [4] }} {{ 'ab' * 2 }} {{ [0] * 3 }} {{ (1,) + (2,) }} {{ xs == [3, 1, 2, 1] }} {{ d == {'b': 1} }} {{ (1, 2) == [1, 2] }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ nothing == nope }} {{ nil == false }}
{{ 1 and 'a' }} {{ 0 or 'b' }} {{ '' and nothing.x }} {{ 'x' or nothing.x }} {{ [] or {} or 0 }} {{ (n or 1) and (not no) }}
   {%- if yes -%}  a  {%- elif no -%}  b  {%- else -%}  c  {%- endif -%}   z
{% if no %}a{% elif nil %}b{% elif n %}c{% else %}d{% endif %}{# comment #}{% if not (no or nil) and n %}e{% endif %}
{{ nothing.x }}
{{ nothing['x'] }}
{{ xs | first.x }}
{{ 1 + 'a' }}
{{ 'a' + 1 }}
{{ n.x.y }}
{{ s.append is defined }}|{{ xs.append }}|{{ xs.append is defined }}
{{ xs.append(1) }}
{{ d.update({}) }}
{{ nothing | tojson }}
{{ 1 | length }}
{{ xs | sort(attribute='a.b') }}
{{ mixed | sort }}
{{ 'a' < 1 }}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% for x in n %}{% endfor %}
{{ raise_exception('words') }}
{{ m() }}
{{ people | selectattr('age', 'nope', 1) | list }}
{{ range(100001) }}
{{ 1 // 0 }}
{{ '' ~ nothing ~ 'x' }} {{ nothing + '' if false }} {{ -nothing if no else 1 }}
""".strip("\n").split("\n")


def main():
    made = environment()
    cases = []
    for source in TEMPLATES:
        source = source.replace("¶", "\n")
        try:
            text = made.from_string(source).render(**VALUES)
        except (jinja2.exceptions.TemplateError, TypeError, ValueError, ArithmeticError):
            text = None
        cases.append({"template": source, "text": text})
    print("{" + f'"origin": "jinja2 {jinja2.__version__}, as tests/parity/jinja/templates.py makes it; text null = it fails",')
    print('"values": ' + json.dumps(VALUES) + ",")
    print('"cases": [\n' + ",\n".join(json.dumps(c) for c in cases) + "\n]}")


main()
