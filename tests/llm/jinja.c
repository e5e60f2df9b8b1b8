/* jinja.c - templates as jinja2 renders them, set up as transformers does: every case that
 * tests/llm/jinja2/make.py made; where a byte comes from; limits; hostile templates; failing allocations.
 */
#include "lib/llm/jinja/jinja.h"
#include "tests/common/tap.h"

#include <jansson.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_SHOWN = 12, TEMPLATES = 4096, GROUPS = 256 };
#define NOW 1767323045 /* 2026-01-02 03:04:05 */

typedef struct result {
    zt_ctx *ctx;
    zt_status status;
    zt_str text, origin;
} result;

static result render(const char *template, size_t count, const json_t *input, const json_t *own, zt_jinja_limits limits)
{
    result r = {.ctx = zt_ctx_new()};
    zt_str_init(&r.text, r.ctx);
    zt_str_init(&r.origin, r.ctx);
    zt_jinja *t = zt_jinja_parse(r.ctx, "t", template, count);
    zt_jinja_vars vars = {.input = input, .own = own, .now = NOW, .utc = true, .limits = limits};
    r.status = t ? zt_jinja_render(r.ctx, t, &vars, &r.text, &r.origin) : zt_ctx_status(r.ctx);
    zt_jinja_free(t);
    return r;
}

static void drop(result *r)
{
    zt_str_fini(&r->text);
    zt_str_fini(&r->origin);
    if (zt_mem_get(r->ctx).blocks) ok(false, "memory was left behind");
    zt_ctx_free(r->ctx);
}

/* ---- jinja2's -------------------------------------------------------------------------------- */

typedef struct tally {
    char group[64];
    int n, wrong;
} tally;

static const char *written[TEMPLATES]; /* templates that later lines refer to */

static bool check_case(const json_t *item, const json_t *vars)
{
    const json_t *t = json_object_get(item, "t"), *input = json_object_get(item, "c");
    const char *text = json_is_integer(t) ? written[json_integer_value(t)] : json_string_value(t);
    const json_t *want = json_object_get(item, "x");
    const char *error = json_string_value(json_object_get(item, "e"));
    size_t length = json_is_integer(t) ? strlen(text) : json_string_length(t);
    json_int_t number = json_integer_value(json_object_get(item, "number"));
    if (json_object_get(item, "number") && number < TEMPLATES) written[number] = text;
    result r = render(text, length, json_is_string(input) ? vars : input, NULL, (zt_jinja_limits){0});
    zt_status status = want ? ZT_OK : strcmp(error, "raise") == 0 ? ZT_ENOTSUP : ZT_EDATA;
    bool right = r.status == status && r.origin.len == r.text.len;
    if (want)
        right = right && r.text.len == json_string_length(want) && memcmp(r.text.data, json_string_value(want), r.text.len) == 0;
    else
        right = right && r.text.len == 0 && strncmp(zt_ctx_error(r.ctx), "t: line ", 8) == 0;
    if (!right && getenv("JINJA_SHOW"))
        diag("%.300s\n#   gives %s %s\n#   not   %s", text, r.text.data ? r.text.data : "", zt_ctx_error(r.ctx),
             want ? json_string_value(want) : error);
    drop(&r);
    return right;
}

static tally *tally_of(tally *all, int *n, const char *group)
{
    for (int i = 0; i < *n; i++)
        if (strcmp(all[i].group, group) == 0) return &all[i];
    snprintf(all[*n].group, sizeof all[*n].group, "%s", group);
    return &all[(*n)++];
}

static void check_cases(const char *path)
{
    tally *all = calloc(GROUPS, sizeof *all);
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0;
    int count = 0, cases = 0, kept = 0;
    json_t *vars = NULL, **keep = calloc(100000, sizeof *keep);
    while (file && getline(&line, &cap, file) > 0 && kept < 100000) {
        json_t *item = json_loads(line, JSON_ALLOW_NUL, NULL);
        if (json_object_get(item, "vars")) vars = json_object_get(item, "vars");
        const char *group = json_string_value(json_object_get(item, "group"));
        if (group && count < GROUPS) {
            tally *t = tally_of(all, &count, group);
            bool right = check_case(item, vars);
            t->n++;
            if (!right && ++t->wrong <= MOST_SHOWN) diag("%s, wrong: %.400s", group, line);
            cases++;
        }
        keep[kept++] = item; /* templates are borrowed from the lines */
    }
    for (int i = 0; i < count; i++)
        ok(all[i].wrong == 0, "%s: %d of %d as jinja2", all[i].group, all[i].n - all[i].wrong, all[i].n);
    ok(cases > 300, "%d cases in %s", cases, path);
    while (kept > 0) json_decref(keep[--kept]);
    free(keep);
    free(all);
    free(line);
    if (file) fclose(file);
}

/* ---- where bytes come from ------------------------------------------------------------------- */

/* The text with [ ] around what comes from the input. */
static void check_origin(const char *template, const char *want)
{
    static const char vars[] = "{\"u\": \"user\", \"p\": \" ab-cd \", \"l\": [\"x\", \"y\"], \"d\": {\"k\": \"v\\n\"}, \"n\": 5}";
    json_t *input = json_loads(vars, 0, NULL), *own = json_loads("{\"bos\": \"<s>\"}", 0, NULL);
    result r = render(template, strlen(template), input, own, (zt_jinja_limits){0});
    char shown[512];
    size_t count = 0;
    for (size_t i = 0; i <= r.text.len && count < sizeof shown - 3; i++) {
        bool before = i > 0 && r.origin.data[i - 1], now = i < r.text.len && r.origin.data[i];
        if (before && !now) shown[count++] = ']';
        if (now && !before) shown[count++] = '[';
        if (i < r.text.len) shown[count++] = r.text.data[i];
    }
    shown[count] = 0;
    if (!ok(r.status == ZT_OK && strcmp(shown, want) == 0, "origin: %s", template)) diag("%s %s", shown, zt_ctx_error(r.ctx));
    drop(&r);
    json_decref(input);
    json_decref(own);
}

static void test_origin(void)
{
    static const char *const cases[][2] = {
        {"a{{ u }}b", "a[user]b"},
        {"{{ bos + u + 'x' }}", "<s>[user]x"},
        {"{{ u ~ 1 ~ u }}", "[user]1[user]"},
        {"{{ p|trim|upper }}!", "[AB-CD]!"},
        {"{{ p.split('-')[1].strip() }}", "[cd]"},
        {"{{ ('<' + u + '>')[1:-1] }}", "[user]"},
        {"{{ ('<' + u + '>')|upper|replace('S', '-') }}", "<[U]-[ER]>"},
        {"{{ 'a-b'|replace('-', u) }}", "a[user]b"},
        {"{{ l|join(', ') }}", "[x], [y]"},
        {"{{ ', '.join(l) }}", "[x], [y]"},
        {"{{ d|tojson }}", "{\"[k]\": \"[v\\n]\"}"},
        {"{{ d }}", "{'[k]': '[v\\n]'}"},
        {"{{ '%s=%d' % (u, n) }}", "[user]=5"},
        {"{{ '{}:{:>6}'.format(u, u) }}", "[user]:  [user]"},
        {"{% set x %}<{{ u }}>{% endset %}{{ x }}", "<[user]>"},
        {"{% macro m(a) %}({{ a }}){% endmacro %}{{ m(u) }}", "([user])"},
        {"{{ u|e }}{{ u[::-1] }}{{ u|title }}", "[userresuUser]"},
        {"{{ u * 2 }}{{ ('<' ~ u) * 2 }}", "[useruser]<[user]<[user]"},
        {"{{ u|indent(2, true) }}{{ u|center(6) }}", "  [user] [user] "},
        {"{% for c in u %}{{ c }}.{% endfor %}", "[u].[s].[e].[r]."},
        {"{% for k, v in d.items() %}{{ k }}{% endfor %}", "[k]"},
        {"{% filter upper %}a{{ u }}{% endfilter %}", "A[USER]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_origin(cases[i][0], cases[i][1]);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static void check_refused(const char *what, const char *template, const char *says)
{
    clock_t start = clock();
    result r = render(template, strlen(template), NULL, NULL, (zt_jinja_limits){0});
    double took = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (!ok(r.status == ZT_EDATA && strstr(zt_ctx_error(r.ctx), says) && took < 20, "bounded: %s", what))
        diag("%.1f s, %s %.100s", took, zt_ctx_error(r.ctx), r.text.data ? r.text.data : "");
    drop(&r);
}

static char *repeated(const char *before, const char *what, int times, const char *after)
{
    size_t length = strlen(what), at = strlen(before);
    char *s = malloc(at + length * (size_t)times + strlen(after) + 1);
    memcpy(s, before, at);
    for (int i = 0; i < times; i++, at += length) memcpy(s + at, what, length);
    strcpy(s + at, after);
    return s;
}

static void test_bounds(void)
{
    // clang-format off
    static const struct {
        const char *before, *what, *after;
    } deep[] = {
        {"{{ ", "(", ""},          {"{{ ", "[", ""},           {"{{ ", "-", "1 }}"},
        {"{{ ", "not ", "1 }}"},   {"{{ 1", " + 1", " }}"},    {"{{ 1", "|abs", " }}"},
        {"{{ a", ".b", " }}"},     {"{{ a", "[0]", " }}"},     {"{{ a", "()", " }}"},
        {"", "{% if 1 %}", ""},    {"", "{% for x in [1] %}", ""}, {"{{ 1", " if 1", " }}"},
        {"{{ 1", " or 1", " }}"},  {"{{ 1 ", "is odd ", " }}"}, {"{% if 1 %}", "{% elif 1 %}", "{% endif %}"},
        {"{{ ", "{1:", "1 }}"},    {"{{ 1", " ** 1", " }}"},   {"{% set ", "(", "x"},
    };
    // clang-format on
    for (size_t i = 0; i < sizeof deep / sizeof *deep; i++) {
        char *t = repeated(deep[i].before, deep[i].what, 20000, deep[i].after);
        check_refused(deep[i].what, t, "t: line");
        free(t);
    }
    check_refused("loops in loops", "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
                  "too many steps");
    check_refused("a range", "{{ range(10**9) }}", "range too big");
    check_refused("a product", "{{ 'abcdefgh' * 10**12 }}", "memory");
    check_refused("doubling", "{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
                  "t: line 1");
    check_refused("lists of lists", "{{ [0] * 10**9 }}", "memory");
    check_refused("a macro that calls itself", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "too deeply");
    check_refused("a namespace in itself", "{% set n = namespace() %}{% set n.x = n %}{{ n }}", "too deeply");
    check_refused("output", "{% for i in range(9999) %}{{ 'x' * 99999 }}{% endfor %}", "t: line 1");
    check_refused("a width", "{{ '%999999999d' % 1 }}", "width");
    check_refused("a precision", "{{ '%.99999f' % 1.0 }}", "digits");
    check_refused("padding", "{{ 'a'.ljust(10**12) }}", "t: line 1");
    check_refused("indent", "{{ [1]|tojson(indent=10**12) }}", "memory");
    check_refused("a big integer", "{{ 2 ** 64 }}", "64 bits");
    check_refused("a search from the right", "{% set a = 'a' * 2000000 %}{{ a.rfind('a' * 1000000 ~ 'b' ~ 'a' * 500000) }}",
                  "too many steps");
    check_refused("searches", "{% set a = 'a' * 9000000 %}{% for i in range(99999) %}{% set b = a.split('b') %}{% endfor %}",
                  "too many steps");
    check_refused(
        "comparisons",
        "{% set a = 'a' * 9000000 %}{% set b = 'a' * 9000000 %}{% for i in range(99999) %}{% set c = a < b %}{% endfor %}",
        "too many steps");
    check_refused("tuples in tuples",
                  "{% set n = namespace(x=1) %}{% for i in range(99999) %}{% set n.x = (n.x,) %}{% endfor %}{{ {n.x: 1} }}",
                  "too deeply");
    check_refused(
        "generators of generators",
        "{% set n = namespace(x='ab') %}{% for i in range(99999) %}{% set n.x = n.x|map('upper') %}{% endfor %}{{ n.x|join }}",
        "too deeply");
    check_refused("lists in lists",
                  "{% set n = namespace(x=1) %}{% for i in range(99999) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x == n.x[0] }}",
                  "too deeply");
    check_refused("a line", "a\n\n{{ 1 + 'a' }}", "line 3");
    check_refused("not UTF-8", "a\xff", "UTF-8");
    check_refused("a generator of itself", "{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}", "too deeply");
}

static void test_limits(void)
{
    static const char text[] = "{% for i in range(50) %}{{ 'abcdefgh' }}{% endfor %}";
    static const struct {
        const char *what;
        zt_jinja_limits limits;
        zt_status status;
    } cases[] = {{"none", {0}, ZT_OK},
                 {"steps", {.steps = 100}, ZT_EDATA},
                 {"memory", {.memory = 500}, ZT_EDATA},
                 {"output", {.output = 399}, ZT_EDATA},
                 {"enough output", {.output = 400}, ZT_OK},
                 {"depth", {.depth = 2}, ZT_EDATA}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        result r = render(text, strlen(text), NULL, NULL, cases[i].limits);
        ok(r.status == cases[i].status && r.text.len == (r.status ? 0 : 400), "limit: %s", cases[i].what);
        drop(&r);
    }
}

static void test_uses(void)
{
    static const char text[] = "{% set a = tools %}{% macro m(x) %}{{ b.c }}{% endmacro %}{{ a }}";
    zt_ctx *ctx = zt_ctx_new();
    zt_jinja *t = zt_jinja_parse(ctx, "t", text, strlen(text));
    ok(t && zt_jinja_uses(t, "tools") && zt_jinja_uses(t, "b") && !zt_jinja_uses(t, "c") && !zt_jinja_uses(t, "m") &&
           !zt_jinja_uses(t, "documents"),
       "which variables are read");
    zt_jinja_free(t);
    zt_ctx_free(ctx);
}

static void test_faults(void)
{
    static const char text[] = "{% macro m(a) %}{{ a|map('upper')|join }}{% endmacro %}"
                               "{% for i in range(2000) %}{{ m(['a', 'b']) ~ {'a': i}|tojson }}{% endfor %}";
    zt_ctx *ctx = zt_ctx_new();
    int count = 0, wrong = 0;
    for (bool done = false; !done && count < 1000;) {
        zt_str string;
        zt_str_init(&string, ctx);
        zt_mem_fail(ctx, (uint64_t)++count, false);
        zt_jinja *t = zt_jinja_parse(ctx, "t", text, strlen(text));
        zt_jinja_vars vars = {0};
        done = t && zt_jinja_render(ctx, t, &vars, &string, NULL) == ZT_OK;
        wrong += zt_ctx_status(ctx) != (done ? ZT_OK : ZT_ENOMEM) || (!done && string.len);
        zt_mem_fail(ctx, 0, false);
        zt_ctx_clear(ctx);
        zt_jinja_free(t);
        zt_str_fini(&string);
        wrong += zt_mem_get(ctx).blocks != 0;
    }
    ok(count > 3 && count < 1000 && !wrong, "each of %d allocations failing", count - 1);
    zt_ctx_free(ctx);
}

int main(int argc, char **argv)
{
    char path[512];
    if (argc > 1) { /* other cases */
        check_cases(argv[1]);
        return tap_done();
    }
    const char *tests = getenv("ZT_TESTS");
    if (!tests || !*tests) tests = dirname(argv[0]);
    snprintf(path, sizeof path, "%s/../jinja/cases.ndjson", tests);
    check_cases(path);
    snprintf(path, sizeof path, "%s/../real/real.ndjson", tests);
    check_cases(path); /* real chat templates: tests/llm/jinja2/real.py */
    test_origin();
    test_bounds();
    test_limits();
    test_uses();
    test_faults();
    return tap_done();
}
