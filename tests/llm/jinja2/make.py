#!/usr/bin/env python3
"""make.py OUT - templates, values and what jinja2 (3.1.6, BSD) makes of them, set up by transformers' (5.24,
Apache-2.0) own code for chat templates. A case a line: {"group", "t": template, "c": variables (or the name of
those in the first line), "x": text; or "e": the template refuses ("raise") or fails ("error")};
"number": later cases name the template so. Packed as
tests/llm/jinja2/jinja.tar.xz:

    python3 make.py /tmp/jinja/cases.ndjson && tar -C /tmp/jinja -cJf tests/llm/jinja2/jinja.tar.xz cases.ndjson

SEED=N and COUNT=N in the environment make others, TEMPLATES=FOLDER those of the templates in it alone: tests/llm/jinja.c
reads any such file named on its command line. Seen on 2026-11-26: 112 templates (the 70 of llama.cpp's models/templates in
llama-cpp-python 0.3.36 from PyPI, 28 of unsloth's chat_templates.py, 18 of chujiezheng/chat_templates; 4 come twice), 8759 cases,
6389 with a text: no difference. Of 65,000 drawn expressions and programs with other seeds the difference is integers of more than 64
bits, and names of filters that an optimizer never looks at.
"""
import copy, datetime, glob, json, os, random, re, sys
import draw
import jinja2
from transformers.utils import chat_template_utils as chat


class Fixed(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 1, 2, 3, 4, 5)


chat.datetime = Fixed
HERE = os.path.dirname(os.path.abspath(__file__))
SEED, COUNT = int(os.environ.get("SEED", 1)), int(os.environ.get("COUNT", 2000))

VARS = {
    "s": "Hello, World", "t": "  padded\n\ttext \n", "u": "Grüße, 世界 🙂 e\u0301", "empty": "", "html": "<b>\"a\" & 'c'</b>", "lines": "one\ntwo\r\nthree\n\nfive",
    "n": 7, "m": -3, "z": 0, "f": 2.5, "g": -0.75, "big": 1e20, "small": 1.5e-7, "yes": True, "no": False, "nil": None,
    "l": [3, 1, 2], "words": ["banana", "Apple", "cherry", "apple"], "mixed": [1, "a", None, 2.5, True, [1, 2], {"k": "v"}], "nothing": [], "nested": [[1, 2], [3], []],
    "d": {"b": 1, "a": "x", "C": [1, 2], "items": "own", "_p": 9}, "none_d": {},
    "users": [{"name": "Bob", "age": 30, "tags": ["x"], "on": True}, {"name": "alice", "age": 25, "tags": [], "on": False}, {"name": "Carol", "age": 30, "tags": ["y", "z"], "on": True}, {"name": "dave", "on": False}],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <|im_end|>"}, {"role": "assistant", "content": "Hello", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1}}}]}],
}

cases, seen = [], set()


def render(template, variables):
    try:
        text = chat._compile_jinja_template(template).render(**variables)
        text.encode("utf-8")
        return {"x": text}
    except jinja2.exceptions.TemplateError as e:
        return {"e": "raise" if type(e) is jinja2.exceptions.TemplateError else "error"}
    except (RecursionError, MemoryError):
        return None
    except Exception:
        return {"e": "error"}


# What we print otherwise: addresses, classes of Python's.
STRANGE = re.compile(r" at 0x[0-9a-f]+|<class |<function|<built-in|<bound|<jinja2|<transformers|<generator|iterator object|<list_reverse|<property|odict|<reversed")


def add(group, template, variables="vars"):
    if (group, template, str(variables)) in seen:
        return
    seen.add((group, template, str(variables)))
    r = render(template, copy.deepcopy(VARS if variables == "vars" else variables))  # some filters change lists
    if r is None or ("REAL" not in os.environ and STRANGE.search(r.get("x", ""))) or len(r.get("x", "")) > 20000:
        return
    cases.append({"group": group, "t": template, "c": variables, **r})


def each(group, text):
    for line in text.strip("\n").split("\n"):
        if line.strip():
            add(group, "{{ " + line.strip() + " }}")


# ---- by hand: expressions -----------------------------------------------------------------------------

each("literals", r"""
1
-1
+1
- -1
1_000
0x1F
0o17
0b101
1.0
1e3
1.5e-7
1E+2
1_0.2_5
100000000000000000.0
123456789012345680.0
0.1 + 0.2
1e16
1e15
123456.789e3
1e22
5e-324
1.7976931348623157e308
-0.0
1e400
true
True
none
None
false
'a' "b" 'c'
'a\nb\tc\\d\'e"f'
"\x41\u00e9\U0001f642\101"
'\q\.'
'line\
continued'
[]
[1, 'a', none, 2.0, true]
[1,]
()
(1,)
(1, 2)
(1)
1, 2
1,
{}
{'a': 1, "b": [2, {'c': 3}]}
{1: 2, none: 3, true: 4, 1.5: 5, (1, 2): 6}
{'a': 1, 'a': 2}
{[1]: 2}
['it\'s', 'say "x"', 'both \' "', 'new\nline', '\u200b', '\x7f', 'é', '\\']
09
1__0
'unterminated
1 2
'a' 1
[1 2]
{'a' 1}
@
a!b
(1
[1)
""")

each("operators", r"""
1 + 2 * 3
(1 + 2) * 3
2 ** 3 ** 2
-2 ** 2
2 ** -1
2 ** 0.5
0 ** 0
7 / 2
8 / 2
7 // 2
-7 // 2
7 // -2
7 % 3
-7 % 3
7 % -3
7.5 // 2
-7.5 // 2
7.5 % 2
-7.5 % 2
7.5 % -2
1 / 0
1 // 0
1 % 0
1.0 / 0
1 + 1.5
1 + true
true + true
-true
'a' + 'b'
'a' + 1
'a' ~ 1 ~ none ~ 2.0 ~ [1] ~ true
1 ~ 2
'a' * 3
3 * 'ab'
'a' * 0
'a' * -1
[1] * 2
(1,) * 2
[1] + [2]
(1,) + (2,)
[1] + (2,)
'a' - 'b'
1 - 'a'
-'a'
+'a'
1 == 1.0
1 == true
'1' == 1
[1, 2] == [1, 2]
[1] == (1,)
{'a': 1} == {'a': 1.0}
none == none
none == false
missing == missing
missing == none
1 != 2
1 < 2 < 3
1 < 3 < 2
3 > 2 >= 2
1 < 2 == true
'a' < 'b'
'a' < 1
'Z' < 'a'
'user' > 'system'
['c', 'a']|max
[1, 2] < [1, 3]
[1] < [1, 0]
(1, 'a') < (1, 'b')
none < 1
{} < {}
1 in [1, 2]
1 not in [1, 2]
'el' in 'hello'
1 in 'hello'
'a' in {'a': 1}
1 in {'a': 1}
'a' in none
'a' in missing
'' in ''
not 1
not 0
not ''
not none
not 1 == 2
not not 1
1 and 2
0 and 2
1 or 2
0 or ''
'' or 'x'
none or false
1 and 0 or 3
1 or 0 and 3
missing or 'x'
missing and 'x'
1 if true else 2
1 if false else 2
1 if false
(1 if false) is undefined
1 if 0 else 2 if 0 else 3
'a' if 1 if 0 else 1 else 'b'
1 + 2 if 1 else 3
1 in [1] == true
1 is odd and 2 is even
1 + 2 ~ 3 + 4
1 ~ 2 + 3
2 * 3 ~ 4
'a' ~ 'b' * 2
10 - 2 - 3
2 * 3 % 4
100 / 10 / 2
9223372036854775807
-9223372036854775807 - 1
3 * 1.0
10 ** 3
10 ** 18
2.0 ** 3
(-8) ** 2
1e308 * 10
0.1 * 3
1 / 3
2 / 3
10 // 3.0
1e20 // 3
5 % 2.5
true and 1
none ~ ''
[] or {}
'%s' % 'a'
'%d items' % 3
'%s %s' % ('a', 1)
'%5d|%-5d|%05d|%+d' % (1, 2, 3, 4)
'%.2f %e %g %G' % (1.5, 12345.678, 0.0001, 1e-10)
'%x %X %o %#x' % (255, 255, 8, 255)
'%r %s' % ('a', none)
'%c%c' % (65, 'b')
'%%' % ()
'%5s|%-5s|%.2s' % ('a', 'b', 'cdef')
'%(a)s %(b)d' % {'a': 1, 'b': 2}
'%d' % 'a'
'%s' % ()
'%s' % (1, 2)
'%s' % [1, 2]
'a' % 1
'%i %u' % (1.9, 2)
'%*d' % (5, 3)
'% d' % 5
'%' % 1
'%y' % 1
""")

each("access", r"""
s[0]
s[-1]
s[100]
s[0:5]
s[:5]
s[7:]
s[-5:]
s[:-7]
s[::2]
s[::-1]
s[5:0:-1]
s[10:2:-2]
s[::0]
s[2:2]
s[100:]
u[2]
u[7]
u[::-1]
u[:8]
u|length
l[0]
l[-1]
l[5]
l[5] is defined
l[1:]
l[::-1]
l['a']
l[1.0]
l[true]
l.0
l.5
l[:]
(1, 2, 3)[1:]
range(10)[2:5]
range(10)[2]
range(10)[-1]
range(10)[::-1]|list
range(5)[::2]
range(5)[-1::-2]
range(3)[2:1]
l[] if z else d[()]|default('none')
range(3)
range(1, 10, 3)
range(0)
range(3)|list
range(5, 0, -2)|list
range(100001)|length
range(1, 2, 0)
range('a')
range(1.5)
d.a
d['a']
d.b
d.missing
d['missing']
d.missing is defined
d.missing.more
d['missing']['more']
d.items
d['items']
d.items is callable
d._p
d['_p']
d.__class__
d['__class__']
d.__class__ is defined
s.__class__.__mro__
s._x
d.C[1]
d['C'][0]
d[1]
d[[1]]
d[:1]
none.a
none[0]
nil.x is defined
missing
missing.x
missing[0]
missing['x']
missing[1:2]
missing()
missing is defined
missing|default('x')
n.x
n[0]
messages[0].role
messages[0]['role']
messages[-1].tool_calls[0].function.name
messages[0].tool_calls
messages[0].tool_calls is defined
messages[1:][0]['role']
messages[2].tool_calls[0].function.arguments
s.upper()
s.upper
'abc'.upper()
s.nosuch()
d.get('a')
d.get('x')
d.get('x', 5)
d.get()
d.get([1])
d.keys()
d.values()
d.items()
none_d.items()
d.keys()|list
d.copy()
d.pop('a')
d.update({'x': 1})
d.setdefault('x', 1)
d.clear()
d.pop is defined
l.append(1)
l.append is defined
l.pop()
l.sort()
l.reverse()
l.extend([1])
l.insert(0, 1)
l.remove(1)
l.clear()
l.copy()
l.index(1)
l.index(9)
l.index(2, 1)
l.count(1)
(1, 2, 1).count(1)
(1, 2).index(2)
[1, [2]].index([2])
s(1)
1()
d.a()
'a'.join
dict(a=1, b=2)
dict([('a', 1), ('b', 2)], c=3)
dict({'a': 1}, a=2)
dict(1)
dict.fromkeys(['a', 'b'], 0)
namespace(a=1).a
namespace({'a': 1}, b=2)
namespace(a=1).b
namespace(a=1)['a']
namespace(_a=1)
cycler('a', 'b').next()
cycler('a', 'b').current
cycler()
joiner()()
raise_exception('no')
raise_exception(1)
raise_exception()
strftime_now('%Y-%m-%d %H:%M:%S')
strftime_now('%d %b %Y, %A %B %j')
strftime_now('')
strftime_now(1)
lipsum
range
""")

each("methods", r"""
t.strip()
t.lstrip()
t.rstrip()
'xxaxx'.strip('x')
'xyaxy'.lstrip('yx')
'xyaxy'.rstrip('yx')
'a'.strip(none)
'a'.strip(1)
'a b  c'.split()
' a b  c '.split()
' a b  c '.split(none, 1)
'a,b,,c'.split(',')
'a,b,,c'.split(',', 1)
'a,b,,c'.split(',', maxsplit=2)
'a,b,,c'.split(sep=',')
'a,b,c'.rsplit(',', 1)
' a b  c '.rsplit(none, 1)
' a b  c '.rsplit()
'a<>b<>c'.split('<>')
'abc'.split('')
''.split()
''.split(',')
'a b'.split(none)
lines.splitlines()
lines.splitlines(true)
lines.splitlines(keepends=true)
''.splitlines()
'a\x0bb\x1cc\u2028d\u0085e'.splitlines()
s.startswith('Hell')
s.startswith(('x', 'H'))
s.startswith('World', 7)
s.startswith('lo', 3, 5)
s.startswith(1)
s.endswith('ld')
s.endswith(('a', 'ld'))
s.endswith('Hello', 0, 5)
s.startswith('')
''.startswith('', 1)
s.replace('l', 'L')
s.replace('l', 'L', 1)
s.replace('', '-')
s.replace('', '-', 2)
s.replace('xyz', 'a')
s.replace('l', '')
s.replace('l')
s.replace(1, 2)
s.upper()
s.lower()
s.title()
'hello wORLD it\'s o\'neil'.title()
s.capitalize()
s.swapcase()
s.casefold()
u.upper()
u.lower()
u.title()
'ß'.upper()
'ÄÖÜ'.lower()
'ΑΒΓ'.lower()
'ΑΣ ΣΑΣ Σ. Α.Σ'.lower()
'ǆ ß ﬁ ŉ'.title()
'ǆ ß ﬁ ŉ'.capitalize()
'ß ﬁ ŉ ΐ'.upper()
'Straße ﬁ İ'.casefold()
'ǅ ß Ⓐ'.swapcase()
'ⓐª'.islower()
'ǅa ᾈ'.istitle()
', '.join(['a', 'b'])
', '.join([])
', '.join('abc')
', '.join([1])
', '.join(d)
'-'.join(words|map('upper'))
s.find('o')
s.find('o', 5)
s.find('o', 5, 6)
s.find('zz')
s.rfind('o')
s.index('W')
s.index('zz')
s.rindex('o')
u.find('世')
u.rfind('界')
s.count('l')
s.count('')
s.count('l', 4)
s.count('o', 0, 5)
u.count('🙂')
'{} {}'.format(1, 'a')
'{1} {0}'.format(1, 'a')
'{a} {b.name}'.format(a=1, b={'name': 2})
'{a[k]} {b[0]}'.format(a={'k': 5}, b=[6])
'{:>5}|{:<5}|{:^5}|{:*^7}'.format(1, 2, 3, 'a')
'{:05d} {:+d} {:x} {:#x} {:b} {:,}'.format(5, 5, 255, 255, 5, 1234567)
'{:.2f} {:.3e} {:g} {:%} {:8.2f}|'.format(3.14159, 31415.9, 0.00001, 0.25, 2.5)
'{!r} {!s}'.format('a', 'b')
'{{}} {}'.format(1)
'{'.format(1)
'}'.format(1)
'{} {1}'.format(1, 2)
'{}'.format()
'{x}'.format(y=1)
'{:d}'.format('a')
'{:s}'.format(1)
'{:>{}}'.format('a', 5)
'{:.3}'.format('abcdef')
'{:.3}'.format(3.14159)
'{}'.format(none)
'{:5}|'.format(true)
'{:_}'.format(1234567)
'{:,.2f}'.format(1234567.891)
'{:e}'.format(0)
'{0.name}'.format(users[0])
'{0.__class__}'.format(s)
'123'.isdigit()
'12a'.isdigit()
''.isdigit()
'²'.isdigit()
'½'.isdigit()
'½'.isnumeric()
'١'.isdecimal()
'abc'.isalpha()
'aé世'.isalpha()
'ab1'.isalnum()
'a b'.isalpha()
' \t\n'.isspace()
''.isspace()
'abc'.islower()
'aBc'.islower()
'ABC1'.isupper()
'123'.isupper()
'Hello World'.istitle()
'Hello world'.istitle()
'abc'.isascii()
'é'.isascii()
'a:b:c'.partition(':')
'a:b:c'.rpartition(':')
'abc'.partition(':')
'abc'.rpartition(':')
'a'.ljust(3) ~ '|'
'a'.rjust(3, '*')
'a'.center(4, '*')
'ab'.center(5, '*')
'a'.center(0)
'-5'.zfill(4)
'5'.zfill(3)
'a\tb'.expandtabs(4)
'prefix_x'.removeprefix('prefix_')
'x.txt'.removesuffix('.txt')
'x'.removeprefix('y')
'a'.upper(1)
'a'.strip(chars='a')
'a'.nope
s.split(',')[0].strip().upper()
s.split(', ')[-1][::-1]
' '.join(s.split())
('a' ~ 1).upper()
s.lower().startswith('hello') and not s.endswith('!')
'<think>x</think>y'.split('</think>')[-1].lstrip('\n')
'<think>\nhmm\n</think>\n\nHi'.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n')
""")

each("filters", r"""
s|upper
s|lower
s|title
'ǆ ß ﬁx-ŉ ΑΣ'|title
'ǆ ΑΣ'|capitalize
'foo-bar baz(qux) [x] {y} <z> a1b o\'neil'|title
s|capitalize
t|trim
'xxaxx'|trim('x')
5|trim
none|trim
missing|trim
missing|upper
5|upper
none|string
5|string ~ 'x'
s|length
l|length
d|length
none|length
5|length
missing|length
s|count
l|first
s|first
d|first
nothing|first
nothing|first is defined
missing|first
5|first
l|last
s|last
d|last
nothing|last
5|last
l|join
l|join(', ')
l|join(d=', ')
users|join(', ', attribute='name')
words|join('-')|upper
5|join
missing|join('x')
mixed|join(' ')
missing|default('x')
none|default('x')
''|default('x')
''|default('x', true)
none|default('x', boolean=true)
0|d('x', true)
missing|d
missing.x|default('a')
d.missing|default('a')
s|replace('o', '0')
s|replace('o', '0', 1)
5|replace(5, 6)
s|replace('o')
l|sort
l|sort(reverse=true)
words|sort
words|sort(case_sensitive=true)
words|sort(true)
users|sort(attribute='name')|map(attribute='name')|list
users[:3]|sort(attribute='age,name')|map(attribute='name')|list
users[:3]|sort(attribute='age', reverse=true)|map(attribute='name')|list
mixed|sort
d|sort
'hello'|sort
nothing|sort
missing|sort
d|dictsort
d|dictsort(true)
d|dictsort(by='value')
{'a': 2, 'b': 1}|dictsort(by='value')
{'a': 2, 'b': 1}|dictsort(reverse=true)
d|dictsort(by='x')
l|dictsort
words|unique|list
words|unique(true)|list
users|unique(attribute='age')|map(attribute='name')|list
[1, 1.0, true, '1']|unique|list
[[1]]|unique|list
l|reverse|list
s|reverse
nothing|reverse|list
5|reverse
l|list
s|list
d|list
5|list
missing|list
l|min
l|max
words|min
words|max
words|max(case_sensitive=true)
users[:3]|max(attribute='age')
nothing|min
nothing|max is undefined
l|sum
users[:3]|sum(attribute='age')
[[1], [2]]|sum(start=[])
['a']|sum
nothing|sum
l|sum(start=10)
-5|abs
(-5)|abs
2.5|abs
(-2.5)|abs
'a'|abs
true|abs
2.5|round
3.5|round
2.55|round(1)
2.345|round(2)
-2.5|round
(-2.5)|round
42|round
1234|round(-2)
1250|round(-2)
1350|round(-2)
2.1|round(0, 'ceil')
2.9|round(method='floor')
(-0.5)|round(0, 'ceil')
2.123|round(2, 'ceil')
42|round(1, 'floor')
2.5|round(1, 'x')
'a'|round
1e20|round
'42'|int
' 42 '|int
'4_2'|int
'42.7'|int
'x'|int
'x'|int(5)
'x'|int(default=none)
'ff'|int(base=16)
'0xff'|int(0, 16)
'0b11'|int(base=0)
'z'|int(base=36)
3.9|int
(-3.9)|int
none|int
l|int
true|int
''|int
'1e3'|int
missing|int
'3.14'|float
'1e3'|float
'x'|float
'x'|float(1.5)
none|float
5|float
'nan'|float
'inf'|float
'-inf'|float
' 1_0.5 '|float
true|float
l|float
{'a': 1}|tojson
mixed|tojson
d|tojson
d|tojson(indent=2)
mixed|tojson(indent=4)
nested|tojson(indent=1)
none_d|tojson(indent=2)
nothing|tojson(indent=2)
d|tojson(indent='\t')
d|tojson(indent=0)
d|tojson(sort_keys=true)
{'a': 1, 1: 2}|tojson(sort_keys=true)
d|tojson(separators=(',', ':'))
d|tojson(separators=(', ', '= '), indent=1)
u|tojson
u|tojson(ensure_ascii=true)
html|tojson
'\x00\x1f\x7f\u2028"\\/'|tojson
'\x7f'|tojson(true)
[1.0, 1e20, 1.5e-7, -0.0]|tojson
'nan'|float|tojson
'inf'|float|tojson
(1, 2)|tojson
{1: 'a', none: 'b', true: 'c', 1.5: 'd'}|tojson
{(1, 2): 3}|tojson
missing|tojson
d.keys()|tojson
range(3)|tojson
s|tojson|length
users|tojson
messages[2]|tojson
l|map('string')|list
words|map('upper')|join(',')
users|map(attribute='name')|list
users|map(attribute='age')|list
users|map(attribute='age', default=0)|list
users|map(attribute='tags.0')|list
users|map(attribute='tags.0', default='-')|list
users[:3]|map(attribute='tags')|map('length')|list
words|map('replace', 'a', 'A')|list
words|map('nosuch')|list
words|map
words|map(x=1)|list
missing|map('upper')|list
5|map('upper')|list
0|map('upper')|list
l|select|list
[0, 1, none, 'a', '']|select|list
l|select('odd')|list
l|select('gt', 1)|list
l|select('>', 1)|list
l|select('in', [1, 2])|list
l|select('nosuch')|list
l|reject('odd')|list
[0, 1, none]|reject|list
users|selectattr('on')|map(attribute='name')|list
users|selectattr('name', 'equalto', 'Bob')|list|length
users|selectattr('age', 'defined')|map(attribute='name')|list
users|selectattr('age', '==', 30)|map(attribute='name')|list
users|rejectattr('on')|map(attribute='name')|list
users|rejectattr('age', 'undefined')|map(attribute='name')|list
users|selectattr()|list
messages|selectattr('role', 'eq', 'user')|first
(messages|selectattr('role', 'ne', 'system')|list)[0].role
messages|rejectattr('role', 'in', ['system'])|map(attribute='content')|join('|')
l|map('string') is sequence
l|map('string')|length
(l|map('string'))[0]
users[:3]|groupby('age')|list|length
users[:3]|groupby('age')|map('first')|list
users|groupby('age', default=0)|map(attribute='grouper')|list
users[:3]|groupby('age')|map(attribute='list')|map('length')|list
words|groupby('0')|map('first')|list
words|groupby(0, case_sensitive=true)|map('first')|list
range(7)|batch(3)|list
range(7)|batch(3, 'x')|list
range(7)|slice(3)|list
range(7)|slice(3, 'x')|list
range(0)|batch(3)|list
range(3)|slice(0)|list
range(2)|slice(4)|list
lines|indent
lines|indent(2)
lines|indent(2, true)
lines|indent(2, first=true, blank=true)
lines|indent('> ')
''|indent
'a\n'|indent(2)
5|indent
s|truncate(5)
s|truncate(9)
'foo bar baz qux'|truncate(9)
'foo bar baz qux'|truncate(9, true)
'foo bar baz qux'|truncate(11, false, '..', 0)
'foo bar baz qux'|truncate(9, end='')
'abc'|truncate(1)
s|wordcount
'a-b c_d  e\'f 12'|wordcount
'abc'|center(7) ~ '|'
html|escape
html|e
html|forceescape
html|e|e
[(html|e)|replace('a', 'b'), (html|e)|title, (html|e)|upper, (html|e)|trim, (html|e)|capitalize, (html|e)|indent]
(html|e|replace('a', 'b')) + '<'
html|safe
html|safe ~ '<'
(html|safe) + '<'
(html|e) + '<'
'<' + ('&'|e)
(html|safe)|string is escaped
html|escape is escaped
html|safe|upper is escaped
['<'|e, '>']|join('&')
('%s'|e) % '<'
'%s and %s'|format('a', 1)
'%(a)s'|format(a=5)
'%s'|format(1, a=2)
d|items|list
l|items|list
missing|items|list
messages[0]|items|list
d|attr('keys')
d|attr('a') is defined
s|attr('upper')
'a b&c/d'|urlencode
{'a b': 1, 'c': 'é'}|urlencode
1000|filesizeformat
1|filesizeformat
123|filesizeformat
1234567|filesizeformat
1234567|filesizeformat(true)
s|nosuch
s|upper|lower|title
s|upper()
s|upper(1)
s|default(default_value='x', nope=1)
s|trim|replace('a', 'b')|length
l|length + 1
-n|abs
l|join(',')|length * 2
1 + l|length
'a' ~ s|upper
(s|upper)[0]
s|upper[0]
[1, 2]|map('float')|sum
1|string|length
1.0|string
users|map(attribute='name')|map('lower')|sort|join(' ')
d|dictsort|map('first')|join
d|dictsort|map('last')|list
""")

each("tests", "\n".join(f"{v} is {t}" for v in ("n", "z", "f", "s", "yes", "nil", "l", "d", "missing", "range(3)", "(1,)", "d.keys()", "namespace()", "range", "'ABC'", "joiner()", "html|e") for t in ("defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false", "mapping", "iterable", "sequence", "callable", "odd", "even", "lower", "upper", "escaped", "in [7, 'Hello, World']", "divisibleby 7", "eq 7", "== 7", "ne 7", "gt 1", "lt 1", "ge 7", "le 7", "equalto(7)", "sameas none", "not defined", "not string", "not none")))
each("tests", r"""
1 is odd is even
1 is odd or 1 is even
1 is not odd and 1 is odd
1 is in [1]
1 is in([1])
'a' is in 'abc'
5 is divisibleby(2)
5 is divisibleby 0
1 is nosuch
1 is not nosuch
'upper' is filter
'nosuch' is filter
'odd' is test
'nosuch' is test
1 is eq(1)
1 is eq
1 is sameas 1
true is sameas true
1 is sameas true
l is sameas l
none is sameas none
1 is lessthan 2
1 is greaterthan 2
'b' is gt 'a'
not 1 is even
1 is even == false
messages[0].content is string and messages[0].content is not mapping
messages[0]['x'] is not defined
1 is defined ~ 'x'
""")

# ---- by hand: programs --------------------------------------------------------------------------------

PROGRAMS = r"""
{% if n > 5 %}big{% elif n > 2 %}mid{% else %}small{% endif %}
{% if z %}a{% elif nil %}b{% elif missing %}c{% else %}d{% endif %}
{% if false %}x{% endif %}|
{% if n, %}t{% endif %}
{% if %}{% endif %}
{% if true %}
{% endif %}
{% if true %}a{% else %}b{% else %}c{% endif %}
{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for x in l %}{{ loop.index }}/{{ loop.length }} {{ loop.index0 }} {{ loop.revindex }} {{ loop.revindex0 }} {{ loop.first }} {{ loop.last }} {{ loop.depth }} {{ loop.depth0 }};{% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}
{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}
{% for x in nothing %}x{% else %}none{% endfor %}
{% for x in missing %}x{% else %}none{% endfor %}
{% for x in nil %}x{% endfor %}
{% for x in 5 %}x{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in d %}{{ k }}{% endfor %}
{% for a, b in [[1, 2], [3, 4]] %}{{ a }}{{ b }}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}
{% for a, b in [[1]] %}{{ a }}{% endfor %}
{% for a, b in [1] %}{{ a }}{% endfor %}
{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for (a, b) in [[1, 2]] %}{{ a }}{{ b }}{% endfor %}
{% for a, in [[1]] %}{{ a }}{% endfor %}
{% for c in 'añb' %}[{{ c }}]{% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}none{% endfor %}
{% for x in l if x > 9 %}{{ x }}{% else %}none{% endfor %}
{% for x in l if loop.index > 1 %}{{ x }}{% endfor %}
{% for x in l %}{% for y in l if y != x and loop.first %}{{ y }}{% endfor %};{% endfor %}
{% for x in l|sort if x is odd %}{{ x }}{% endfor %}
{% for x in [1, 2] + [3] %}{{ x }}{% endfor %}
{% for x in 1, 2, 3 %}{{ x }}{% endfor %}
{% for x in (l if yes else nothing) %}{{ x }}{% endfor %}
{% for x in l if yes else nothing %}{{ x }}{% endfor %}
{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}
{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}e{% endfor %}
{% for x in l %}{% for y in l %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}
{% for x in l %}a{% break %}b{% endfor %}c
{% break %}
{% for x in l %}{% endfor %}{% continue %}
{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}
{% for x in l %}{{ loop.cycle() }}{% endfor %}
{% for x in [1, 1, 2, 2, 1] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}
{% for x in [1, 2] %}{% for y in [1, 2] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% for x in [1, 2] %}{% set outer = loop %}{% for y in [1, 2] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{% for x in range(3) %}{{ loop }}{% endfor %}
{% for x in nested recursive %}[{{ loop(x) if x is sequence else x }}]{% endfor %}
{% for x in nested recursive %}{% if x is iterable %}({{ loop(x) }}:{{ loop.depth }}){% else %}{{ x }}@{{ loop.depth0 }}{% endif %}{% endfor %}
{% for x in l %}{{ loop(x) }}{% endfor %}
{% for x in l|map('string') %}{{ x }}{{ loop.last }}{{ loop.length }}{% endfor %}
{% for x in l|select('odd') %}{{ loop.revindex }}{{ x }} {% endfor %}
{% set x = 1 %}{{ x }}
{% set x, y = 1, 2 %}{{ x }}{{ y }}
{% set x = y = 1 %}
{% set (x, y) = [1, 2] %}{{ x + y }}
{% set x = 1, 2 %}{{ x }}
{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}
{% for i in l %}{% set y = i %}{% endfor %}{{ y is defined }}
{% for i in l %}{{ y }}{% set y = i %}{% endfor %}
{% for i in l %}{% if loop.first %}{% set q = 5 %}{% endif %}{{ q }}{% endfor %}
{% if true %}{% set x = 5 %}{% endif %}{{ x }}
{% if false %}{% set n = 5 %}{% endif %}{{ n }}
{% set n = n + 1 %}{{ n }}
{% set ns = namespace(x=0) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}
{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}
{% set ns = namespace(a=[]) %}{% set ns.a = ns.a + [1] %}{% set ns.a = ns.a + [2] %}{{ ns.a }}
{% set ns.x = 1 %}
{% set d.x = 1 %}
{% set ns = namespace() %}{% set ns._x = 1 %}
{% set ns = namespace() %}{% set ns['x'] = 1 %}
{% set ns = namespace(n=0) %}{% for x in [1,2,3,4] if ns.n < 2 %}{% set ns.n = ns.n + 1 %}{{ x }}{% endfor %}
{% set x %}hello {{ s }}{% endset %}{{ x|upper }}
{% set x | upper | replace('H', 'J') %}hello{% endset %}{{ x }}
{% set x %}{% set inner = 1 %}a{% endset %}{{ x }}{{ inner is defined }}
{% set 1 = 2 %}
{% set true = 2 %}
{% set x.y.z = 2 %}
{% set l[0] = 2 %}
{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a is defined }}
{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}
{% with a = 1, b = a %}{{ b is defined }}{% endwith %}
{% with n = n + 1 %}{{ n }}{% endwith %}{{ n }}
{% with a, b = [1, 2] %}{{ a }}{{ b }}{% endwith %}
{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, 3) }}|{{ m(1, c=5) }}|{{ m(b=1, a=0) }}
{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m() }}
{% macro m(a) %}[{{ a.x }}]{% endmacro %}{{ m() }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m(a, a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m() %}{{ n }}{% set n = 1 %}{% endmacro %}{{ m() }}{{ n }}
{% set q = 1 %}{% macro m() %}{{ q }}{% endmacro %}{% set q = 2 %}{{ m() }}
{% macro f(n) %}{% if n > 1 %}{{ n * f(n - 1)|int }}{% else %}1{% endif %}{% endmacro %}{{ f(5) }}
{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}body {{ n }}{% endcall %}
{% macro m(x) %}{{ caller(x, 2) }}{% endmacro %}{% call(a, b) m(1) %}{{ a }}-{{ b }}{% endcall %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}
{% macro m(caller) %}{{ caller }}{% endmacro %}{{ m(1) }}
{% macro m(caller=none) %}{{ caller }}{% endmacro %}{{ m(1) }}{{ m() }}
{% call n() %}{% endcall %}
{% call n %}{% endcall %}
{% macro m(l) %}{% for x in l %}{{ loop.index }}{{ x }}{% endfor %}{% endmacro %}{{ m(l) }}{{ m('ab') }}
{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}
{% macro m() %} a {% endmacro %}[{{ m()|trim }}]{{ m }}{{ m.name }}
{% macro outer() %}{% macro inner() %}i{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}{{ inner is defined }}
{% if true %}{% macro m() %}x{% endmacro %}{% endif %}{{ m() }}
{{ m() }}{% macro m() %}x{% endmacro %}
{% filter upper %}abc {{ s }}{% endfilter %}
{% filter replace('a', 'b')|upper %}aXa{% endfilter %}
{% filter nosuch %}a{% endfilter %}
{% filter upper %}{% set f = 1 %}{% endfilter %}{{ f }}
{% generation %}x{{ s }}{% set y = 1 %}{% endgeneration %}{{ y is defined }}
{% raw %}{{ x }}{% if %}{% endraw %}
{%- raw -%}  {{ x }}  {%- endraw -%}  b
{% raw %}
a
{% endraw %}
b
{% raw %}a
{# comment #}a{#- c -#} b {#+ d +#}
a {# unclosed
{# a #}
b
{% block a %}x{{ n }}{% endblock %}y{% block b scoped %}z{% endblock b %}
{% for x in l %}{% block a %}{{ x }}{% endblock %}{% endfor %}
{% include 'x' %}
{% if false %}{% include 'x' %}{% endif %}ok
{% import 'x' as y %}
{% extends 'x' %}
{% nosuch %}
{% print n %}{% print n, s %}
{% do 1 %}
{% set x = [] %}{% set _ = x.append(1) %}
{% if x is defined and x.y %}a{% else %}b{% endif %}
{% if messages[0].role == 'system' and messages|length > 1 %}{{ messages[1:]|map(attribute='role')|join(',') }}{% endif %}
{% if 'x'|nosuch %}a{% endif %}
{% if false %}{{ 'x'|nosuch }}{% endif %}ok
{% for x in nothing %}{{ 'x'|nosuch }}{% endfor %}ok
{{ ('x'|nosuch) if false else 'ok' }}
{% if false %}{{ 1 is nosuch }}{% endif %}ok
{% for i in [1] %}{% if false %}{{ 'x'|nosuch }}{% endif %}{% endfor %}ok
{% macro m() %}{{ 'x'|nosuch }}{% endmacro %}ok
{{ n }}{{ s }
{{ n
{% if n %
{{ }}
{{ n }} }}
{{ {'a': {'b': 1}}['a']['b'] }}
{{ {'a': {'b': 1}} }}
{{- n -}} x {{- n -}}
  {{- n }}
a  {%- if true %}  b  {%- endif %}  c
a  {%- if true -%}  b  {%- endif -%}  c
{{ '{{' }}{{ '}}' }}{{ '{%' }}{{ "%}" }}
{{ x.y if x is defined else 'none' }}
{{ caller is defined }}
{{ loop is defined }}
{% set messages = messages[1:] %}{{ messages|length }}
{% set loop_messages = messages[1:] if messages[0]['role'] == 'system' else messages %}{{ loop_messages|length }}
{% for m in messages %}{{ m['role'] }}:{{ m.content }}{{ '\n' }}{% endfor %}
{% for m in messages %}{% if m.tool_calls %}{% for t in m.tool_calls %}{{ t.function.arguments|tojson }}{% endfor %}{% endif %}{% endfor %}
{% for m in messages if m.role != 'system' %}{{ loop.index0 }}{{ m.role }}{{ loop.last }} {% endfor %}
{% for m in messages|reverse %}{{ m.role }} {% endfor %}
{% for m in messages[::-1] %}{{ loop.index0 }}{{ m.role }} {% endfor %}
{% for k, v in messages[0]|items %}{{ k }}={{ v }};{% endfor %}
{% for k, v in d|dictsort %}{{ k }}={{ v }};{% endfor %}
{% for g in users[:3]|groupby('age') %}{{ g.grouper }}:{{ g.list|map(attribute='name')|join('+') }};{% endfor %}
{% for a, b in users[:3]|groupby('age') %}{{ a }}:{{ b|length }};{% endfor %}
{% for row in range(5)|batch(2, '-') %}{{ row|join(',') }};{% endfor %}
{% set j = joiner('|') %}{% for x in l %}{{ j() }}{{ x }}{% endfor %}
{% set c = cycler('a', 'b') %}{% for x in l %}{{ c.next() }}{% endfor %}{{ c.current }}{{ c.reset() }}{{ c.next() }}
{% set x = 'a' %}{% set y = x %}{% set x = x + 'b' %}{% set z1 = x + 'c' %}{% set z2 = x + 'd' %}{{ x }}{{ y }}{{ z1 }}{{ z2 }}
{% set ns = namespace(o='') %}{% for x in range(20) %}{% set ns.o = ns.o + x|string %}{% endfor %}{{ ns.o }}
{{ dict(a=1, **{'b': 2}) }}{{ dict(*[[('x', 1)]]) }}
{% macro m(a, b, c) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(*[1, 2], **{'c': 3}) }}{{ m(*l) }}
{{ m(1, **5) }}
{{ range(*[1, 4])|list }}
{{ range(1, *[4])|list }}
{{ dict(a=1, a=2) }}
{{ range(a=1) }}
{{ s[1:3][0] }}{{ l[:2][-1] }}{{ (1,2,3)[::2] }}
{{ l[1, 2] }}
{{ d['a', 'b'] is defined }}
{%+ if true %}a{%+ endif %}
    {%+ if true %}a
    {% endif %}
b
    {% if true %}
    x
    {% endif %}
end
  {# comment #}  
  x
{% if true -%}
   x
{%- endif %}

y
{% for x in l %}
  - {{ x }}
{% endfor %}
{% for x in l -%}
  - {{ x }}
{% endfor -%}
done

a
{% if true +%}
b
{% endif %}
c{{ 1 }}
d
{{ s -}}
   x
{% set x = 1 -%}   y
{{ x }}{{+ x }}
{{-x}}{{ -x }}
{{ not_defined_function(1) }}
{% if (n if yes else z) > 3 and (s or empty) %}ok{% endif %}
{{ [n, m]|max }}{{ [n, m]|min }}
{{ "a" if n == 7 }}{{ "b" if n == 8 }}
{{ (messages|last).tool_calls|length if (messages|last).tool_calls is defined else 0 }}
{{ messages|map(attribute='content')|select('string')|map('length')|sum }}
{% set content = messages[1].content %}{% if content is string %}{{ content|trim }}{% elif content is iterable %}{% for c in content %}{{ c.text }}{% endfor %}{% endif %}
{{ bos_token }}{{ s }}{{ eos_token is defined }}
{% autoescape false %}{{ html }}{% endautoescape %}
"""


# Programs of several lines: those between lines that say so.
MULTI = [
    "    {% if true %}\n    x\n    {% endif %}\nend\n", "a\n\n\n", "a\r\nb\rc\n", "\n{% if true %}\n\na\n\n{% endif %}\n\nb", "  {% set x = 1 %}  \n  {{ x }}  \n", "{% for x in l %}\n  - {{ x }}\n{% endfor %}\n",
    "{% for x in l -%}\n  - {{ x }}\n{% endfor -%}\ndone\n", "a {%- if true +%}\n b {%+ endif -%} \n c", "{%+ if true %}\n a{%+ endif %}\n", "\t{#- c -#}\n\t x {# d #}\n y", "{# a #}\nb {# c #}\n  {# d +#}\n e",
    "{{ 'a\nb' }}\n{{ \"a\r\nb\"|length }}", "  {{- n }}\n  {{ n -}}\n  {{ n }}", "{% raw %}\n a {{ b }}\n{% endraw %}\nc", "  {%- raw %} a {% endraw -%}  b", "{% raw -%}\n a\n  {%- endraw %}\nb",
    "line {{ n\n + 1 }}\n{% if\n n %}x{%\nendif %}", "a\n  {% block x %}\n  b\n  {% endblock %}\n c", "x {% if true %}  \n y {% endif %}  \n z", "\u00a0{%- if true %}\u00a0a{% endif %}\n\u2003{% if true %}\nb{% endif %}",
    "{% macro m(a) -%}\n  {{ a }}\n{%- endmacro %}\n[{{ m(1) }}]", "{% macro m(a) %}\n  {{ a }}\n{% endmacro %}\n[{{ m(1) }}]", "{% set x %}\n  a\n{% endset %}\n[{{ x }}]", "{% call(x) m() %}{% endcall %}",
    "{% filter indent(2) %}\na\nb\n{% endfilter %}", "\n\n", "\n", "", " ", "{{ 1 }}\n\n", "a{% if true %}\n\nb{% endif %}\n\n", "{% if true %} {% endif %} {% if true %}\t{% endif %}\n", "{%- if true -%}  {%- endif -%}", "{%-if true%}a{%endif-%}",
    "{{n}}{{-n}}{{n-}} {{ n+1 }}{{ n-1 }}", "#}{{ '#}' }}%}}}", "{ {{ n }} }{%", "{", "{{", "{#", "{% raw", "a {{ n }} {", "{{ '%}' }}{% set x = '%}' %}{{ x }}{{ '}}' }}", "{{ {'a': 1}.a }}{{ {'a': {}} }}",
    "{%- for x in [1,2] %}\n\n  {{- x }}\n\n{%- endfor %}\n\nend\n", "{% for x in [1,2] %}{{ x }}\n{% endfor %}\n{% for x in [] %}\n{% else %}\ne\n{% endfor %}",
]

for line in PROGRAMS.strip("\n").split("\n"):
    add("programs", line)
for text in MULTI:
    add("lines", text)
# Neighbouring lines together: white space between statements.
rows = PROGRAMS.strip("\n").split("\n")
for i in range(0, len(rows) - 2, 2):
    add("lines", "\n".join(rows[i : i + 3]) + "\n")

# ---- drawn ----------------------------------------------------------------------------------------------

rnd = random.Random(SEED)
NAMES = list(VARS) + ["missing"]
LITERALS = ["0", "1", "2", "-1", "3.5", "0.1", "'a'", "'x y'", "''", "'A-b c'", "' p '", "true", "false", "none", "[]", "[1, 2, 3]", "['b', 'a']", "{'a': 1}", "(1, 2)", "'é世'", "1e3", "'12'", "'1.5'"]
FILTERS = ["upper", "lower", "trim", "length", "first", "last", "join(', ')", "join", "list", "string", "int", "float", "sort", "reverse|list", "reverse", "unique|list", "min", "max", "sum", "abs", "round", "round(1)", "tojson", "tojson(indent=2)", "default('D')",
           "default('D', true)", "replace('a', 'b')", "title", "capitalize", "map('string')|list", "select|list", "reject('string')|list", "map(attribute='name')|list", "selectattr('on')|list", "items|list", "dictsort", "batch(2)|list", "indent(2)", "wordcount",
           "truncate(6)", "center(9)", "e", "select('defined')|list", "map('length')|list", "first|default('-')", "list|length", "format(1)", "tojson(sort_keys=true, separators=(',', ':'))", "dictsort(by='value')", "slice(2)|list", "groupby('age')|list"]
METHODS = ["upper()", "strip()", "split()", "split(' ')", "split('a', 1)", "lower()", "title()", "replace('l', 'L')", "startswith('H')", "endswith('d')", "find('o')", "count('l')", "keys()|list", "items()|list", "values()|list", "get('a')", "get('zz', 1)", "index(1)", "isdigit()",
           "splitlines()", "lstrip()", "rstrip()", "zfill(4)", "join(['p', 'q'])", "format(1, 2)", "copy()", "append(1)", "pop()", "name", "a", "role", "items", "isalpha()", "capitalize()", "partition(',')", "rsplit(none, 1)"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence", "odd", "even", "true", "in [1, 'a']", "eq 1", "divisibleby 2", "lower", "gt 1", "callable"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


def expression(depth):
    if depth <= 0 or rnd.random() < 0.15:
        return rnd.choice(NAMES) if rnd.random() < 0.6 else rnd.choice(LITERALS)
    kind = rnd.random()
    inner = lambda: expression(depth - 1 - rnd.randrange(2))
    if kind < 0.30:
        return f"{inner()} {rnd.choice(BINARY)} {inner()}"
    if kind < 0.36:
        return f"({inner()})"
    if kind < 0.56:
        return f"{wrapped(inner())}|{rnd.choice(FILTERS)}"
    if kind < 0.68:
        return f"{wrapped(inner())}.{rnd.choice(METHODS)}"
    if kind < 0.76:
        return f"{wrapped(inner())} is {rnd.choice(['', 'not '])}{rnd.choice(TESTS)}"
    if kind < 0.82:
        if rnd.random() < 0.5:  # of names: what is constant is cut by other rules
            return f"{rnd.choice(NAMES)}[{rnd.choice(['1:', ':2', '::-1', '1:-1', '::2'])}]"
        return f"{wrapped(inner())}[{rnd.choice(['0', '-1', repr('a'), repr('name'), inner()])}]"
    if kind < 0.87:
        return f"{inner()} if {inner()} else {inner()}"
    if kind < 0.90:
        return f"not {inner()}"
    if kind < 0.94:
        return f"[{inner()}, {inner()}]"
    if kind < 0.97:
        return "{" + f"{rnd.choice(LITERALS)}: {inner()}" + "}"
    return f"-{wrapped(inner())}"


def wrapped(e):
    return f"({e})" if re.search(r"[ -]", e) or rnd.random() < 0.1 else e


def space():
    return rnd.choice(["", "", " ", "\n", "  \n", "\n  ", "text ", "\n\n", "\t"])


def tag(what):
    return "{%" + rnd.choice(["", "", "-", "+"]) + f" {what} " + rnd.choice(["", "", "-", "+"]) + "%}"


def body(depth):
    return "".join(space() + statement(depth - 1) for _ in range(rnd.randrange(1, 4))) + space()


def statement(depth):
    kind = rnd.random()
    if depth <= 0 or kind < 0.30:
        return "{{" + rnd.choice(["", "", "-"]) + f" {expression(2)} " + rnd.choice(["", "", "-"]) + "}}"
    if kind < 0.45:
        parts = tag(f"if {expression(2)}") + body(depth)
        if rnd.random() < 0.3:
            parts += tag(f"elif {expression(1)}") + body(depth)
        if rnd.random() < 0.5:
            parts += tag("else") + body(depth)
        return parts + tag("endif")
    if kind < 0.62:
        name, over = rnd.choice(["x", "s", "n", "y"]), rnd.choice(["l", "words", "users", "d", "range(3)", "nested", "nothing", "messages", "s", expression(1)])
        parts = tag(f"for {name} in {over}" + rnd.choice(["", "", f" if {name}", f" if {expression(1)}"])) + body(depth)
        parts += rnd.choice(["", "{{ loop.index }}", "{{ loop.last }}", "{{ loop.length }}", "{% break %}", "{% if loop.first %}{% continue %}{% endif %}", "{{ loop.nextitem }}", "{{ x }}"]) + space()
        if rnd.random() < 0.2:
            parts += tag("else") + body(depth)
        return parts + tag("endfor")
    if kind < 0.74:
        return tag(f"set {rnd.choice(['x', 'y', 'n', 's', 'x, y', 'ns.a'])} = {expression(2)}")
    if kind < 0.80:
        return tag(f"set {rnd.choice(['x', 'y'])}{rnd.choice(['', ' | upper', ' | trim'])}") + body(depth) + tag("endset")
    if kind < 0.85:
        return tag(f"macro m{rnd.randrange(2)}({rnd.choice(['', 'x', 'x, y=1', 'n=s'])})") + body(depth) + tag("endmacro") + "{{ m" + str(rnd.randrange(2)) + f"({rnd.choice(['', '1', 's, l', 'y=2', '*l'])})" + " }}"
    if kind < 0.89:
        return tag(f"with x = {expression(1)}") + body(depth) + tag("endwith")
    if kind < 0.93:
        return tag(f"filter {rnd.choice(['upper', 'trim', 'indent(2)', 'length'])}") + body(depth) + tag("endfilter")
    if kind < 0.96:
        return tag("generation") + body(depth) + tag("endgeneration")
    return "{#" + rnd.choice(["", "-"]) + " c " + rnd.choice(["", "-", "+"]) + "#}"


def fill(group, count, make):
    """Until the group has so many cases."""
    end, tries = len(cases) + count, 0
    while len(cases) < end and tries < 20 * count:
        add(group, make())
        tries += 1


drawer = draw.Drawer(rnd)
fill("drawn expressions", COUNT, lambda: "{{ " + drawer.expression(drawer.any_kind(), rnd.choice([1, 2, 2, 3])) + " }}")
fill("drawn programs", COUNT // 4, drawer.program)
assert COUNT < 2000 or not drawer.unused(), drawer.unused()
# Of any types: mostly errors.
fill("wild expressions", COUNT // 4, lambda: "{{ " + expression(rnd.choice([2, 3, 4])) + " }}")
fill("wild programs", COUNT // 16, lambda: "{% set ns = namespace(a=1) %}" + body(3))

# ---- whole chat templates -----------------------------------------------------------------------------------

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "Its name: \"Köln\""}, "days": {"type": "integer", "description": "How many", "default": 1}, "unit": {"type": "string", "enum": ["c", "f"], "description": "unit"}}, "required": ["city"]}, "return": {"type": "string"}}},
    {"type": "function", "function": {"name": "sum_all", "description": "Adds <numbers> & such.", "parameters": {"type": "object", "properties": {"xs": {"type": "array", "items": {"type": "number"}, "description": "numbers"}, "o": {"type": "object", "properties": {"k": {"type": ["string", "null"]}}, "additionalProperties": {"type": "string"}, "description": "an object"}}}}},
]
CALL = [{"id": "abcdefghi", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2, "deep": {"a": [1, None, True]}}}}]
DOCS = [{"doc_id": 1, "title": "A <doc>", "text": "First\ntext"}, {"doc_id": "b", "title": "Zwei", "text": "Größe 世界"}]
SYS, USER = {"role": "system", "content": "  You are terse.\n"}, {"role": "user", "content": " Wie geht's?\n"}
CONVERSATIONS = [
    [USER], [SYS, USER], [USER, {"role": "assistant", "content": " Gut. "}, {"role": "user", "content": "Na <|im_end|> dann"}], [],
    [SYS, USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nJa."}, {"role": "user", "content": "Ende 🙂"}],
    [USER, {"role": "assistant", "content": "", "tool_calls": CALL}, {"role": "tool", "name": "get_weather", "tool_call_id": "abcdefghi", "content": "{\"t\": 21.5}"}],
    [SYS, USER, {"role": "assistant", "tool_calls": CALL + CALL}, {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}, {"role": "assistant", "content": "Done"}, {"role": "user", "content": "?"}],
    [USER, {"role": "assistant", "content": "x", "reasoning_content": "because\n"}], [USER, {"role": "assistant", "reasoning_content": "why", "thinking": "why", "content": "", "tool_calls": CALL}, {"role": "tool", "content": "ok"}],
    [{"role": "user", "content": [{"type": "text", "text": "part one"}, {"type": "image"}, {"type": "text", "text": "two"}]}], [USER, USER], [SYS], [{"role": "developer", "content": "dev"}, USER],
    [{"role": "system", "content": "/no_think Be kind. /system_override"}, USER], [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}, {"role": "user", "content": "\u3000x\u00a0"}],
    [{"role": "assistant", "content": "I begin"}, USER], [{"role": "tool", "content": "alone"}], [{"content": "no role"}],
]
EXTRAS = [{"tools": None, "documents": None, "add_generation_prompt": True}, {"tools": TOOLS, "documents": None, "add_generation_prompt": True}, {"tools": None, "documents": DOCS, "add_generation_prompt": True, "enable_thinking": False},
          {"tools": TOOLS[:1], "documents": DOCS, "add_generation_prompt": False, "thinking": True, "controls": {"length": "short"}}, {"add_generation_prompt": True, "tools": TOOLS, "documents": None, "tools_in_user_message": False, "reasoning_effort": "high", "builtin_tools": ["code_interpreter", "wolfram"]}]
# Twelve of them for real.py, each with the variables that fit it.
REAL = [(0, 0), (1, 0), (2, 0), (1, 1), (5, 1), (6, 1), (7, 0), (8, 4), (9, 0), (14, 0), (1, 2), (4, 3)]
FOLDER = os.environ.get("TEMPLATES")
if FOLDER:
    cases.clear()
for path in sorted(glob.glob(os.path.join(FOLDER or os.path.join(HERE, "templates"), "*.jinja"))):
    template = open(path, encoding="utf-8").read()
    every = [(i, k) for i in range(len(CONVERSATIONS)) for k in range(5 if i < 9 or FOLDER else 2)]
    for messages, extra in ((CONVERSATIONS[i], EXTRAS[k]) for i, k in (REAL if "REAL" in os.environ else every)):
        add("chat" if FOLDER and "REAL" not in os.environ else "chat " + os.path.basename(path)[:-6], template, {"messages": messages, "bos_token": "<s>", "eos_token": "</s>", **extra})

# ---- out ----------------------------------------------------------------------------------------------------

# A template is written once, where it comes first.
number, groups = {}, {}
with open(sys.argv[1], "w", encoding="utf-8") as out:
    print(json.dumps({"vars": VARS}, ensure_ascii=False), file=out)
    for c in cases:
        groups[c["group"]] = groups.get(c["group"], 0) + 1
        if len(c["t"]) > 500:
            if c["t"] in number:
                c = dict(c, t=number[c["t"]])
            else:
                number[c["t"]] = len(number)
                c = dict(c, number=number[c["t"]])
        print(json.dumps(c, ensure_ascii=False), file=out)
for group in groups:
    print(group, groups[group], "of them a text:", sum("x" in c for c in cases if c["group"] == group))
