"""draw.py - draws expressions and programs for make.py, by type, so that most of them yield a text.

A row of RULES makes an expression of its type: {type} is any expression of that type, <type> one that a
suffix can follow. Of two rows drawn, the one used less often is taken, so that all of them occur.
"""
import re

VARIABLES = {
    "str": ["s", "t", "u", "html", "lines", "empty", "words[0]", "users[1].name", "messages[1].content", "d.a"],
    "int": ["n", "m", "z", "l[0]", "d.b", "users[0].age"],
    "float": ["f", "g"],
    "bool": ["yes", "no", "users[0].on"],
    "ints": ["l", "nested[0]", "d.C"],
    "strs": ["words", "users[2].tags"],
    "users": ["users[:3]", "users[:2]"],
    "user": ["users[0]", "users[2]"],
    "dict": ["d", "none_d", "messages[0]", "users[0]"],
    "any": ["missing", "nil", "mixed", "nested", "small", "big"],
}
LITERALS = {
    "str": ["'a'", "'x y'", "''", "'A-b c'", "' p '", "'é世🙂'", "'12'", "'-7'", "'1.5'", "\"it's\"", "'a,b,,c'", "'foo bar baz'", "'\\n'", "'<b>'", "'ǅ ß ﬁ'", "'Hello'", "'ab' 'cd'", "'tab\\there'", "'%'"],
    "int": ["0", "1", "2", "3", "-1", "10", "42", "1_000", "0x1f"],
    "float": ["3.5", "0.1", "1e3", "2.25", "-0.5", "1e-7", "1e16", "100.0"],
    "bool": ["true", "false", "True", "False"],
    "ints": ["[1, 2, 3]", "[5, 4, 5, 1]", "range(4)|list", "[7]"],
    "strs": ["['b', 'a', 'B']", "['x']", "['foo', 'bar', 'baz']", "('p', 'q')|list", "'a b c'.split()"],
    "users": ["[{'name': 'Zed', 'age': 1, 'tags': ['q'], 'on': true}, {'name': 'amy', 'age': 2, 'tags': [], 'on': false}]"],
    "user": ["{'name': 'Zed', 'age': 1, 'tags': ['q'], 'on': true}"],
    "dict": ["{'a': 1}", "{'x': [1, 2], 'y': none}", "{}", "dict(a=1, b='c')", "{'k': {'j': 1.5}, 'é': true}"],
    "any": ["none", "[]", "(1, 'a')", "[none, true, 1.5, 'x']", "(1,)", "{'a': [1, {'b': none}]}"],
}
SMALL = ["0", "1", "2", "3", "5", "8"]
SEPARATORS = ["', '", "'-'", "' '", "''", "'\\n'"]
SLICES = ["1:", ":2", "::-1", "1:-1", "::2", "-2:", ":-1", "2:0:-1", "-1::-2", ":", "100:", "n:", ":z", "-100:2"]

# What makes an expression of a type.
RULES = {
    "str": r"""
<str>|upper
<str>|lower
<str>|title
<str>|capitalize
<str>|trim
<str>|trim('ao ')
<str>|replace({letter}, {str})
<str>|replace({letter}, 'X', {small})
<str>|string
<any>|string
<int>|string
<float>|string
<str>|default('D')
<str>|default({str}, true)
missing|default({str})
nil|d({str}, true)
<strs>|join({separator})
<strs>|join
<ints>|join({separator})
<users>|join({separator}, attribute='name')
<any>|tojson
<dict>|tojson(indent={small})
<dict>|tojson(sort_keys=true)
<dict>|tojson(separators=(',', ':'))
<user>|tojson(indent=2, sort_keys=true)
<users>|tojson(separators=(';', '='), indent=1)
<str>|tojson(ensure_ascii=true)
<str>|tojson(ensure_ascii=false)
<dict>|tojson(false, 4, (', ', ': '), true)
<strs>|tojson(indent=none)
<ints>|tojson(indent='\t')
<float>|tojson
<str>|indent
<str>|indent({small})
<str>|indent({small}, true)
<str>|indent(2, first=true, blank=true)
<str>|indent('> ', blank={bool})
<str>|truncate({small}, leeway=0)
<str>|truncate(7, {bool})
<str>|truncate(7, true, '…', 0)
<str>|truncate(9, end='')
<str>|center({width})
<str>|e
<str>|escape
<str>|forceescape
<str>|safe
<str>|e|upper
<str>|e ~ {str}
'%s|%s'|format({any}, {int})
'%5d %-4s %.2f'|format({int}, {str}, {float})
'%(k)s'|format(k={any})
<str>|urlencode
<dict>|urlencode
<int>|filesizeformat
<int>|abs|filesizeformat(true)
<str>|first
<str>|last
<strs>|first
<strs>|last
<strs>|min
<strs>|max
<strs>|max(case_sensitive=true)
<str>|list|join({separator})
<str>|reverse
<strs>|map('upper')|join({separator})
<strs>|map('replace', 'a', {str})|join
<users>|map(attribute='name')|join({separator})
<users>|map(attribute='tags.0', default='-')|join({separator})
<users>|map(attribute='tags')|map('join', '+')|join({separator})
<dict>|dictsort|map('first')|join({separator})
<dict>|items|map('last')|map('string')|join({separator})
<ints>|batch(2, '-')|map('join', ',')|join(';')
<ints>|slice(2)|map('length')|join({separator})
<users>|groupby('age')|map(attribute='grouper')|join({separator})
<users>|sort(attribute='age,name')|map(attribute='name')|join({separator})
<users>|selectattr('on')|map(attribute='name')|join({separator})
<users>|rejectattr('age', 'gt', {int})|map(attribute='name')|first|default('none')
<ints>|select('odd')|join({separator})
<strs>|reject('in', {strs})|join({separator})
<strs>|unique|join({separator})
<strs>|sort|join({separator})
<strs>|reverse|join({separator})
<str>.upper()
<str>.lower()
<str>.title()
<str>.capitalize()
<str>.swapcase()
<str>.casefold()
<str>.strip()
<str>.lstrip()
<str>.rstrip()
<str>.strip('ab \n')
<str>.lstrip({str})
<str>.rstrip({letter})
<str>.replace({letter}, {str})
<str>.replace({str}, 'y', {small})
<str>.replace('', '.', {small})
<str>.removeprefix({str})
<str>.removesuffix({str})
<str>.ljust({width}) ~ '|'
<str>.rjust({width}, '*')
<str>.center({width}, {fill})
<str>.zfill({width})
<str>.expandtabs({small})
<str>.split()[0]|default('')
<str>.split({sep})[-1]
<str>.rsplit({sep}, 1)[0]
<str>.partition({sep})[{three}]
<str>.rpartition({sep})[{three}]
(<str>.splitlines() + [''])[0]
{separator}.join({strs})
{separator}.join(<strs>|map('lower'))
'{} {!r}'.format({any}, {str})
'{1}-{0}'.format({str}, {int})
'{a}:{b:>{w}}|'.format(a={str}, b={int}, w={width})
'{:{f}^9}|{:<4}|{:+,.2f}'.format({str}, {int}, {float}, f='*')
'{0.name}/{1[a]}'.format({user}, {'a': {str}})
'{:04d} {:x} {:b} {:e} {:%}'.format({int}, {int}, {int}, {float}, {float})
'%s and %r' % ({any}, {str})
'%d%%|%5.1f|%x' % ({int}, {float}, <int>|abs)
'%-6s|' % {str}
'%(name)s is %(age)d' % {user}
<str> + {str}
<str> ~ {any}
{int} ~ {str}
{any} ~ {float}
<str> * {small}
{small} * <str>
<str>[{slice}]
<str>[{slice}]
<strs>[{slice}]|join
<user>.name
<user>['name']
<users>[0]['name']
<users>[-1].name.upper()
(<user>.tags + ['z'])[0]
<dict>.get('a', {str})
<dict>.keys()|join({separator})
<dict>.values()|map('string')|join
<dict>.items()|map('join', '=')|join({separator})
<user>|attr('name')
{str} if {bool} else {str}
{str} or {str}
{bool} and {str} or {str}
strftime_now({time})
joiner({str})() ~ 'x'
cycler({str}, {str}).next()
cycler('a', {str}).current
namespace(a={str}).a
dict(x={str}).x
dict({dict}, q={str})['q']
dict([('a', {str})]).a
messages[{three}].role
(messages|last).tool_calls[0].function.arguments|tojson
messages|map(attribute='role')|join({separator})
messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|first
users[0].name.nope|default({str})
range({small})|join({separator})
dict.fromkeys({strs}, {int})|tojson
(<str>|e) % ()
(<str>|safe) + {str}
['<'|e, {str}]|join({separator})
""",
    "int": r"""
<str>|length
<strs>|length
<ints>|count
<dict>|length
<any>|string|length
<str>|wordcount
<ints>|sum
<users>|sum(attribute='age')
<ints>|sum(start={int})
<ints>|min
<ints>|max
<ints>|first
<ints>|last
<users>|map(attribute='age')|max
<users>|map(attribute='tags')|map('length')|sum
(<users>|max(attribute='age')).age
<int>|abs
<float>|int
<str>|int
<str>|int({int})
<str>|int(default={int}, base=16)
'0b101'|int(base=0)
'z{small}'|int(0, 36)
<bool>|int
<int>|default({int})
<ints>|sort|first
<ints>|unique|list|length
<ints>|select('gt', {int})|list|length
<ints>|reject('even')|list|length
<ints>|map('abs')|sum
<strs>|map('length')|sum
<strs>|map('int')|sum
<users>|groupby('on')|list|length
<ints>|batch({positive})|list|length
<str>.find({letter})
<str>.rfind({letter}, {small})
<str>.find({str}, 1, -1)
<str>.count({letter})
<str>.count({str}, {small})
('xyz' ~ {str}).index('y')
({str} ~ 'b').rindex('b')
(<ints> + [{int}])|length
<ints>.count({int})
([{int}] + <ints>).index(<ints>|last) if 0 else {int}
(<strs> + ['x']).index('x')
(1, 2, {int}, 2).count(2)
(3, {int})[0]
<users>[0].age
<user>['age']
<dict>.get('a', {int})|int
{int} + {int}
{int} - {int}
{int} * {small}
{int} // {divisor}
{int} % {divisor}
{small} ** {three}
-<int>
+<int>
- -<int>
{int} + {bool}
{int} if {bool} else {int}
{int} or {int}
(<ints> * 2)|length
range({small}, 20, {positive})|length
range(9)[{small}]
range(10, {small}, -2)|list|length
namespace(v={int}).v
cycler(1, {int}).next()
<ints>[{int} % 1]
(<ints>[{slice}] + [0])[0]
[{int}, {int}]|max
(messages[1:]|list)|length
<str>.split({sep})|length
<str>.rsplit(none, {small})|length
<str>.splitlines(true)|length
<float>|round|int
""",
    "float": r"""
<float>|abs
<float>|round
<float>|round({three})
<float>|round(1, 'ceil')
<float>|round(2, method='floor')
<int>|round(1)
<int>|round(-1)
<int>|float
<str>|float
<str>|float({float})
{int} / {divisor}
{float} + {int}
{float} - {float}
{float} * {int}
{float} // {divisor}
{float} % {divisor}
{small} ** -1 if 0 else {float}
{positive} ** 0.5
{positive} ** -{positive}
-<float>
{float} if {bool} else {float}
[{float}, {int}]|max
[{float}, {int}, {float}]|sum
[{float}, {int}]|sort|first
['1.5', '2']|map('float')|sum + {float}
""",
    "bool": r"""
{int} == {int}
{int} != {float}
{int} < {int}
{int} < {int} <= {int}
{float} >= {int}
{str} == {str}
{str} < {str}
{str} > {str}
{ints} == {ints}
{ints} < {ints}
{strs} >= {strs}
{dict} == {dict}
{any} == {any}
{any} != {int}
{letter} in {str}
{str} not in {str}
{int} in {ints}
{str} in {strs}
{str} in {dict}
'name' in {user}
{int} in range({small})
{any} in {strs}
{any} in [{any}, {str}]
not {bool}
not {any}
{bool} and {bool}
{bool} or {bool}
{bool} == {bool}
<any> is defined
<any> is undefined
<any> is none
<any> is not none
<any> is boolean
<any> is true
<any> is false
<any> is integer
<any> is float
<any> is number
<any> is string
<any> is mapping
<any> is sequence
<any> is iterable
<any> is callable
<any> is not callable
<any> is sameas none
<any> is eq({any})
<any> is ne {int}
<any> is equalto {str}
<any> is in([{any}, none])
<str> is in {str}
<int> is in {ints}
<int> is not in({ints})
<int> is odd
<int> is even
<int> is not even
<int> is divisibleby({divisor})
<int> is divisibleby 3
<int> is gt {int}
<int> is ge({int})
<int> is lt {float}
<int> is le 2
<int> is greaterthan 1
<int> is lessthan {int}
<int> is == {int}
<bool> is sameas({bool})
<str> is lower
<str> is upper
<str> is escaped
<str>|e is escaped
<str> is string and {bool}
<float> is float
<dict> is mapping
<dict>.a is defined
<dict>.nope is undefined
<dict>['a'] is not defined
missing.x is defined if 0 else {bool}
'upper' is filter
{str} is test
'odd' is test
range is callable
<str>.upper is callable
<str>.startswith({str})
<str>.startswith(('a', {str}), {small})
<str>.endswith({str})
<str>.endswith({letter}, 0, {small})
<str>.isdigit()
<str>.isalpha()
<str>.isalnum()
<str>.isspace()
<str>.isupper()
<str>.islower()
<str>.istitle()
<str>.isnumeric()
<str>.isdecimal()
<str>.isascii()
(not {bool}) is true
{int} is odd == {bool}
{int} is odd or {int} is even
<users>|selectattr('on')|list|length > {int}
<user>.on
{bool} if {bool} else {bool}
namespace(q={bool}).q
(1 if {bool}) is undefined
""",
    "ints": r"""
<ints>|sort
<ints>|sort(reverse={bool})
<ints>|reverse|list
<ints>|unique|list
<ints>|list
<ints>|map('abs')|list
<strs>|map('length')|list
<strs>|map('int', default={int})|list
<ints>|select('odd')|list
<ints>|select('>', {int})|list
<ints>|select('in', {ints})|list
<ints>|select|list
<ints>|reject('divisibleby', {divisor})|list
<ints>|reject|list
<ints>|batch(2)|first|default([0])
<ints>|slice(2)|first
<users>|map(attribute='age')|list
<users>|map(attribute='nope', default={int})|list
<ints> + {ints}
<ints> * {three}
<ints>[{slice}]
<ints>[{slice}]
<ints>.copy()
range({small})|list
range({small}, 12, {positive})|list
range(9)[{slice}]|list
[{int}, {int}]
[{int}, {int}, {int}]
{ints} if {bool} else {ints}
{ints} or {ints}
(<ints>|groupby(0|string))|list and {ints} if 0 else {ints}
dict(a={ints}).a
nested|sum(start=[])
nested|first
""",
    "strs": r"""
<strs>|sort
<strs>|sort(reverse=true)
<strs>|sort(case_sensitive={bool})
<strs>|sort(true, true)
<strs>|reverse|list
<strs>|unique|list
<strs>|unique(true)|list
<strs>|map('upper')|list
<strs>|map('replace', {letter}, {letter})|list
<strs>|map('truncate', 3, true, '.', 0)|list
<strs>|map('default', 'x', true)|list
<ints>|map('string')|list
<str>|list
<dict>|list
<dict>.keys()|list
<dict>|dictsort|map('first')|list
<dict>|dictsort(true, reverse={bool})|map(attribute=0)|list
<users>|map(attribute='name')|list
<users>|sort(attribute='name')|map(attribute='name')|list
<users>|sort(attribute='age', reverse=true)|map(attribute='name')|list
<users>|unique(attribute='age')|map(attribute='name')|list
<users>|selectattr('age', 'ge', {int})|map(attribute='name')|list
<users>|rejectattr('on')|map(attribute='name')|list
<users>|selectattr('tags')|map(attribute='tags.0')|list
<users>|groupby('on')|map('last')|map('first')|map(attribute='name')|list
<strs>|select('ne', {str})|list
<strs>|select('string')|list
<strs>|select('upper')|list
<strs>|reject('eq', {str})|list
<strs>|reject('lower')|list
<str>.split()
<str>.split({sep})
<str>.split({sep}, {small})
<str>.split(maxsplit=1)
<str>.rsplit({sep}, 1)
<str>.rsplit()
<str>.splitlines()
<str>.splitlines(keepends=true)
<str>.partition({sep})|list
<strs> + {strs}
<strs> * {three}
<strs>[{slice}]
<strs>.copy()
[{str}, {str}]
[{str}, {str}, {str}]
{strs} if {bool} else {strs}
<user>.tags
<user>.tags + {strs}
messages|map(attribute='role')|list
messages|rejectattr('role', 'in', ['system'])|map(attribute='role')|list
""",
    "users": r"""
<users>|sort(attribute='name')
<users>|sort(attribute='age', reverse={bool})
<users>|sort(attribute='on,age')
<users>|selectattr('age', 'defined')|list
<users>|rejectattr('name', 'none')|list
<users>|reverse|list
<users>|unique(attribute='name')|list
<users> + {users}
<users>|list
<users>|select('mapping')|list
[{user}, {user}]
{users} if {bool} else {users}
""",
    "user": r"""
<users>|first
<users>|last
<users>|max(attribute='age')
<users>|min(attribute='name')
<users>[0]
<users>[-1]
dict({user}, name={str})
{'name': {str}, 'age': {int}, 'tags': {strs}, 'on': {bool}}
{user} if {bool} else {user}
<user>.copy()
""",
    "dict": r"""
{'a': {any}}
{'a': {int}, 'b': {str}}
{{str}: {any}, 'z': {ints}}
dict(<dict>|items)
dict({dict}, a={any})
dict(a={any})
dict(<dict>.items())
dict.fromkeys({strs}, {any})
<dict>.copy()
{dict} if {bool} else {dict}
{dict} or {dict}
{user}
""",
    "any": r"""
{str}
{int}
{float}
{bool}
{ints}
{strs}
{dict}
{users}
({int}, {str})
[{any}, {any}]
[{any}, [{any}], {}]
({any},)
{1: {any}, none: {any}, (1, 2): {str}}
<dict>.get('a')
<dict>.get('nope')
<dict>.a
<dict>['zz']
<ints>|batch({positive})|list
<strs>|batch(2, {any})|list
<ints>|slice({positive}, 0)|list
<users>|groupby('age')|list
<users>|groupby('nope', default={int})|map('first')|list
<strs>|groupby('0')|map('first')|list
<dict>|items|list
<dict>.items()|list
<dict>.values()|list
<dict>|dictsort
<dict>.items()
<dict>.keys()
range({small})
(range({small}))[{slice}]
({int}, {int}, {str})[{slice}]
<any>|default({any}, {bool})
[{any}, {int}]|first
[]|first is defined
{any} if {bool} else {any}
{any} if {bool}
{any} or {any}
{any} and {any}
<users>[0].nope
(users|last).age is defined
messages
(messages|last).tool_calls
<str>[{int}]|default({any})
<strs>|tojson|safe
<any>|map|string|length > 0 if 0 else {int}
namespace(a={any}).a
namespace({'b': {any}}).b
""",
    "letter": "'a'\n'o'\n'e'\n' '\n'l'\n'世'\n','",
    "separator": "\n".join(SEPARATORS),
    "sep": "','\n' '\n'a'\n'o'\n'-'\n'lo'",
    "fill": "'*'\n'·'\n' '",
    "small": "\n".join(SMALL),
    "positive": "1\n2\n3\n4",
    "divisor": "1\n2\n3\n-2\n7\n2.5",
    "three": "0\n1\n2",
    "width": "0\n3\n7\n12\n20",
    "slice": "\n".join(SLICES),
    "time": "'%Y-%m-%d'\n'%d %B %Y'\n'%H:%M:%S'\n'%A, %b %-d, %y'\n'%j %a %p %I %%'\n'%d %b %Y'",
}
RULES = {kind: [row for row in rows.strip("\n").split("\n") if row] for kind, rows in RULES.items()}
HOLE = re.compile(r"\{(%s)\}|<(%s)>" % (("|".join(RULES),) * 2))
PRIMARY = re.compile(r"^\w+(\.\w+|\[[^\[\]]*\])*$|^'[^']*'$|^\[[^\[\]]*\]$|^[\w.]+\([^()]*\)$")


class Drawer:
    def __init__(self, rnd):
        self.rnd, self.used, self.scopes, self.macros, self.names = rnd, {}, [], [], 0

    # ---- expressions ----

    def row(self, kind):
        a, b = self.rnd.choice(RULES[kind]), self.rnd.choice(RULES[kind])
        best = a if self.used.get((kind, a), 0) <= self.used.get((kind, b), 0) else b
        self.used[kind, best] = self.used.get((kind, best), 0) + 1
        return best

    def leaf(self, kind):
        scoped = [name for scope in self.scopes for name, of in scope if of == kind]
        if scoped and self.rnd.random() < 0.5:
            return self.rnd.choice(scoped)
        return self.rnd.choice((VARIABLES if self.rnd.random() < 0.65 else LITERALS)[kind])

    def expression(self, kind, depth):
        if kind in LITERALS and depth <= 0:
            return self.leaf(kind)
        if kind in LITERALS and depth < 3 and self.rnd.random() < 0.12:
            return self.leaf(kind)
        return HOLE.sub(lambda hole: self.part(hole, depth - 1), self.row(kind))

    def part(self, hole, depth):
        kind = hole.group(1) or hole.group(2)
        text = self.expression(kind, depth - self.rnd.randrange(2) if kind in LITERALS else depth)
        if kind not in LITERALS:
            return text
        if hole.group(1):  # an operand: sometimes without parentheses, whatever its operators bind to
            return text if PRIMARY.match(text) or self.rnd.random() < 0.6 else f"({text})"
        return text if PRIMARY.match(text) else f"({text})"

    def unused(self):
        return [row for kind, rows in RULES.items() for row in rows if (kind, row) not in self.used]

    def any_kind(self):
        return self.rnd.choice(["str"] * 5 + ["int"] * 3 + ["float", "bool", "bool", "ints", "strs", "dict", "any", "any", "user"])

    # ---- programs ----

    def name(self):
        self.names += 1
        return f"v{self.names}"

    def space(self):
        return self.rnd.choice(["", "", "", " ", "\n", "  \n", "\n  ", "text ", "\n\n", "\t", " - ", "\r\n", "é "])

    def tag(self, what):
        left, right = self.rnd.choice(["", "", "", "-", "+"]), self.rnd.choice(["", "", "", "-", "+"])
        return "{%" + left + f" {what} " + right + "%}"

    def print(self, what):
        return "{{" + self.rnd.choice(["", "", "", "-"]) + f" {what} " + self.rnd.choice(["", "", "", "-"]) + "}}"

    def body(self, depth, names=(), extra=""):
        self.scopes.append(list(names))
        macros = list(self.macros)
        text = "".join(self.space() + self.statement(depth - 1) for _ in range(self.rnd.randrange(1, 3))) + extra + self.space()
        self.scopes.pop()
        self.macros = macros
        return text

    def statement(self, depth):
        if depth <= 0:
            return self.print(self.expression(self.any_kind(), 2))
        kinds = [(self.printing, 5), (self.conditional, 3), (self.loop, 5), (self.recursive, 1), (self.assign, 3), (self.set_block, 2), (self.namespace, 2), (self.macro, 2),
                 (self.call_macro, 2), (self.call_block, 2), (self.filter_block, 2), (self.with_block, 1), (self.generation, 1), (self.raw, 1), (self.comment, 1), (self.block, 1)]
        make, weights = zip(*kinds)
        return self.rnd.choices(make, weights)[0](depth)

    def printing(self, depth):
        return self.print(self.expression(self.any_kind(), 2))

    def conditional(self, depth):
        parts = self.tag(f"if {self.expression(self.rnd.choice(['bool', 'bool', 'any', 'str', 'int']), 2)}") + self.body(depth)
        if self.rnd.random() < 0.4:
            parts += self.tag(f"elif {self.expression('bool', 2)}") + self.body(depth)
        if self.rnd.random() < 0.5:
            parts += self.tag("else") + self.body(depth)
        return parts + self.tag("endif")

    LOOP = ["{{ loop.index }}", "{{ loop.index0 }}", "{{ loop.revindex }}", "{{ loop.revindex0 }}", "{{ loop.first }}", "{{ loop.last }}", "{{ loop.length }}", "{{ loop.depth }}", "{{ loop.depth0 }}", "{{ loop.previtem }}", "{{ loop.nextitem }}",
            "{{ loop.previtem is defined }}", "{{ loop.nextitem|default('-') }}", "{{ loop.cycle('a', 'b') }}", "{{ loop.cycle(1, 2, 3) }}", "{{ 'c' if loop.changed(loop.index // 2) }}", "{% if not loop.last %}, {% endif %}", "{% if loop.first %}{% continue %}{% endif %}", "{% if loop.index > 1 %}{% break %}{% endif %}",
            "{% if loop.index is odd %}{% continue %}{% endif %}", "{% break %}", "{% continue %}", "{{ loop.length - loop.index }}", "{{ loop.index ~ '/' ~ loop.length }}", "{% set outer = loop %}{% for i in [1, 2] %}{{ outer.index }}{{ loop.index }}{% endfor %}"]

    def loop(self, depth):
        kind, over, extra = self.rnd.choice(["ints", "strs", "users", "str", "items", "pairs", "dict", "generator"]), None, ""
        x, y = self.name(), self.name()
        if kind == "items":
            head, names = f"{x}, {y} in <dict>{self.rnd.choice(['.items()', '|items', '|dictsort'])}", [(x, "str"), (y, "any")]
        elif kind == "pairs":
            head, names = self.rnd.choice([(f"{x}, {y} in [(1, {{str}}), ({{int}}, {{str}})]", [(x, "int"), (y, "str")]), (f"{x}, ({y}, _) in [({{str}}, [{{int}}, 1])]", [(x, "str"), (y, "int")]), (f"{x}, {y} in <users>|groupby('age')", [(x, "int"), (y, "users")])])
        elif kind == "generator":
            head, names = self.rnd.choice([(f"{x} in <strs>|map('upper')", [(x, "str")]), (f"{x} in <ints>|select('gt', 1)", [(x, "int")]), (f"{x} in <ints>|batch(2)", [(x, "ints")]), (f"{x} in range({{small}})", [(x, "int")]), (f"{x} in <users>|selectattr('on')", [(x, "user")]), (f"{x} in <strs>|reverse", [(x, "str")])])
        else:
            head, names = f"{x} in <{kind}>", [(x, {"ints": "int", "strs": "str", "users": "user", "str": "str", "dict": "str"}[kind])]
        head = HOLE.sub(lambda hole: self.part(hole, 1), head)
        if self.rnd.random() < 0.3:
            self.scopes.append(names)
            head += " if " + self.expression("bool", 1)
            self.scopes.pop()
        parts = self.tag(f"for {head}") + self.body(depth, names, "".join(self.space() + self.rnd.choice(self.LOOP) for _ in range(self.rnd.randrange(3))))
        if self.rnd.random() < 0.25:
            parts += self.tag("else") + self.body(depth)
        return parts + self.tag("endfor")

    def recursive(self, depth):
        x = self.name()
        tree = self.rnd.choice(["nested", "[1, [2, [3, 4], 5], [], 6]", "[[[[7]]]]", "[{'n': 1, 'c': [{'n': 2, 'c': []}, {'n': 3, 'c': [{'n': 4, 'c': []}]}]}]"])
        if "'n'" in tree:
            inner = "{{ %s.n }}%s{%% if %s.c %%}({{ loop(%s.c) }}){%% endif %%}" % (x, self.rnd.choice(self.LOOP[:16]), x, x)
        else:
            inner = "{%% if %s is iterable %%}<{{ loop(%s)%s }}>{%% else %%}{{ %s }}%s{%% endif %%}" % (x, x, self.rnd.choice(["", "|trim", "|upper"]), x, self.rnd.choice(self.LOOP[:16]))
        return self.tag(f"for {x} in {tree} recursive") + self.space() + inner + self.space() + self.tag("endfor")

    def assign(self, depth):
        name, kind = self.name(), self.rnd.choice(["str", "str", "int", "ints", "strs", "dict", "user", "users", "bool", "float", "any"])
        value = self.expression(kind, 2)
        if self.rnd.random() < 0.15:
            other = self.name()
            text = self.tag(self.rnd.choice([f"set {name}, {other} = ({value}), {self.expression('int', 1)}", f"set ({name}, {other}) = [{value}, {self.expression('int', 1)}]"]))
            self.scopes[-1].append((other, "int"))
        else:
            text = self.tag(f"set {name} = {value}")
        self.scopes[-1].append((name, kind))
        return text + (self.print(name) if self.rnd.random() < 0.5 else "")

    def set_block(self, depth):
        name = self.name()
        chain = self.rnd.choice(["", "", " | upper", " | trim", " | replace('a', 'b')", " | indent(2)|title"])
        text = self.tag(f"set {name}{chain}") + self.body(depth) + self.tag("endset")
        self.scopes[-1].append((name, "str"))
        return text + self.print(f"{name}|length ~ {name}")

    def namespace(self, depth):
        name, kind, x = self.name(), self.rnd.choice(["int", "str", "strs"]), self.name()
        start = {"int": "0", "str": "''", "strs": "[]"}[kind]
        step = {"int": f"{name}.a + {self.expression('int', 1)}", "str": f"{name}.a ~ {x}", "strs": f"{name}.a + [{self.expression('str', 1)}]"}[kind]
        text = self.tag(f"set {name} = namespace(a={start}, b=1)") + self.tag(f"for {x} in {self.rnd.choice(['l', 'words', 'range(3)', 'u'])}") + self.tag(f"set {name}.a = {step}")
        text += self.body(depth, [(f"{name}.a", kind), (f"{name}.b", "int")]) + self.tag("endfor")
        self.scopes[-1] += [(f"{name}.a", kind)]
        if self.rnd.random() < 0.2:
            return text + self.print(f"{name}.a") + self.tag(f"set {name}.b, {name}.c = {name}.a, 2") + self.print(f"{name}.b ~ {name}.c")
        return text + self.print(f"{name}.a")

    MACROS = [("{p}", ["str"], 1), ("{p}, {q}=1", ["str", "int"], 1), ("{p}='dflt', {q}=n", ["str", "int"], 0), ("", [], 0), ("{p}, {q}={p}", ["str", "str"], 1), ("{p}, {q}=[1, 2]", ["user", "ints"], 1)]

    def macro(self, depth):
        name, p, q = self.name(), self.name(), self.name()
        params, kinds, need = self.rnd.choice(self.MACROS)
        names = list(zip((p, q), kinds))
        rest = self.rnd.choice(["", "", "", "{{ varargs }}{{ kwargs }}", "{{ varargs|length }}", "{{ caller is defined }}"])
        saved, self.scopes = self.scopes, []  # a macro reads what is set outside when it is called, of which types is not known here
        text = self.tag(f"macro {name}({params.format(p=p, q=q)})") + self.body(depth, names, rest) + self.tag("endmacro")
        self.scopes = saved
        self.macros.append((name, (p, q)[: len(kinds)], kinds, need, rest))
        return text + self.call(self.macros[-1])

    def arguments(self, macro):
        name, params, kinds, need, rest = macro
        count = self.rnd.randrange(need, len(kinds) + 1)
        values = [self.expression(kind, 1) for kind in kinds[:count]]
        values = [v if PRIMARY.match(v) else f"({v})" for v in values]
        form = self.rnd.random()
        if form < 0.3 and count:
            order = list(zip(params, values))
            self.rnd.shuffle(order)
            return ", ".join(f"{p}={v}" for p, v in order)
        if form < 0.4 and count:
            return f"*[{', '.join(values)}]"
        if form < 0.5 and count:
            return "**{" + ", ".join(f"'{p}': {v}" for p, v in zip(params, values)) + "}"
        if "varargs }" in rest and count == len(kinds):
            values += ["1", "k=2"]
        return ", ".join(values)

    def call(self, macro):
        return self.print(f"{macro[0]}({self.arguments(macro)}){self.rnd.choice(['', '', '|trim', '|upper', ' ~ 1', '|length'])}")

    def call_macro(self, depth):
        return self.call(self.rnd.choice(self.macros)) if self.macros else self.macro(depth)

    def call_block(self, depth):
        name, p = self.name(), self.name()
        saved, self.scopes = self.scopes, []
        if self.rnd.random() < 0.5:
            text = self.tag(f"macro {name}()") + self.body(depth, (), "[{{ caller() }}]") + self.tag("endmacro")
            self.scopes = saved
            return text + self.tag(f"call {name}()") + self.body(depth) + self.tag("endcall")
        text = self.tag(f"macro {name}({p}=2)") + self.body(depth, [(p, "int")], "{{ caller(%s, 'w') }}{{ caller(1, y=%s) if 0 }}" % (p, p)) + self.tag("endmacro")
        self.scopes = saved
        x, y = self.name(), self.name()
        return text + self.tag(f"call({x}, {y}='d') {name}({self.rnd.choice(['', '5', p + '=7'])})") + self.body(depth, [(x, "int"), (y, "str")]) + self.tag("endcall")

    def filter_block(self, depth):
        chain = self.rnd.choice(["upper", "trim", "indent(2)", "length", "replace('a', 'b')|upper", "title", "e", "truncate(9, true)", "list|length", "indent(3, true)|trim", "wordcount", "capitalize", "tojson"])
        return self.tag(f"filter {chain}") + self.body(depth) + self.tag("endfilter")

    def with_block(self, depth):
        x, y = self.name(), self.name()
        head = self.rnd.choice([f"with {x} = {self.expression('str', 2)}, {y} = {self.rnd.randrange(9)}", f"with {x}, {y} = ['q', 4]"])
        return self.tag(head) + self.body(depth, [(x, "str"), (y, "int")]) + self.tag("endwith") + (self.print(f"{x} is defined") if self.rnd.random() < 0.3 else "")

    def generation(self, depth):
        return self.tag("generation") + self.body(depth) + self.tag("endgeneration")

    def raw(self, depth):
        return self.tag("raw") + self.rnd.choice(["{{ x }}", "{% if %}", " {# #} \n", "}}\n"]) + self.tag("endraw")

    def comment(self, depth):
        return "{#" + self.rnd.choice(["", "-", "+"]) + self.rnd.choice([" c ", " {{ x }} ", "\n"]) + self.rnd.choice(["", "-", "+"]) + "#}"

    def block(self, depth):
        return self.tag(f"block b{self.name()}") + self.body(depth) + self.tag("endblock")

    def program(self):
        self.scopes, self.macros = [], []
        return self.body(3)
