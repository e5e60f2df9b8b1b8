/* grammar_schema.c - JSON Schema: the official test suite's cases (tests/llm/json_schema/make.py).
 *
 * For each schema that is supported, every instance that is not valid must be refused, without exception. Valid ones must be accepted,
 * except where what is written is narrower than what is valid (see lib/llm/grammar/schema.h): narrower[] has the reasons. A schema
 * that is not supported must be refused with a message that names a keyword.
 */
#include "lib/llm/grammar/grammar.h"
#include "tests/common/tap.h"

#include <jansson.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

/* Descriptions of cases of which some valid instances are not written. */
static const struct {
    const char *file, *description, *reason;
} narrower[] = {
#define ORDER   "properties come in the order of the schema"
#define CLOSED  "no properties or items beyond those that the schema names"
#define NUMBERS "numbers are short, and integers have no fraction"
#include "tests/llm/json_schema/narrower.inc"
    {NULL, NULL, NULL},
};

typedef struct tally {
    int schemas, unsupported, accepted, refused, narrow, wrong;
} tally;

static const char *reason_of(const char *file, const char *description)
{
    for (int i = 0; narrower[i].file; i++)
        if (strcmp(narrower[i].file, file) == 0 && strcmp(narrower[i].description, description) == 0) return narrower[i].reason;
    return NULL;
}

static bool accepts(zt_grammar *grammar, const char *text)
{
    zt_grammar_matcher *matcher = zt_grammar_matcher_new(grammar, NULL);
    bool fits = false, whole = zt_grammar_matcher_accept(matcher, text, strlen(text), &fits) == ZT_OK && fits &&
                               zt_grammar_matcher_complete(matcher);
    zt_grammar_matcher_free(matcher);
    return whole;
}

static void check_case(const json_t *item, tally *count)
{
    const char *file = json_string_value(json_array_get(item, 0)), *description = json_string_value(json_array_get(item, 1));
    const json_t *schema = json_array_get(item, 2), *instances = json_array_get(item, 3), *instance;
    const char *reason = reason_of(file, description);
    bool narrow = false;
    size_t i;
    zt_ctx *ctx = zt_ctx_new();
    zt_grammar_part part = {.kind = ZT_GRAMMAR_SCHEMA, .name = "s", .schema = schema};
    zt_grammar *grammar = zt_grammar_compile(ctx, &part, 1);
    bool nothing = strstr(zt_ctx_error(ctx), "no text fits");
    count->schemas++;
    if (!grammar && !nothing) {
        count->unsupported++;
        if (zt_ctx_status(ctx) != ZT_EDATA || !strstr(zt_ctx_error(ctx), "not supported")) {
            count->wrong++;
            diag("%s: %s: %s", file, description, zt_ctx_error(ctx));
        }
        if (getenv("SCHEMA_SHOW")) diag("unsupported: %s: %s: %s", file, description, zt_ctx_error(ctx));
    }
    json_array_foreach(instances, i, instance)
    {
        const char *text = json_string_value(json_array_get(instance, 0));
        bool valid = json_is_true(json_array_get(instance, 1)), accepted = grammar && accepts(grammar, text);
        if (!grammar && !nothing) continue;
        bool wrong = valid != accepted && !(valid && reason);
        narrow = narrow || (valid && !accepted);
        count->accepted += accepted && valid;
        count->refused += !accepted && !valid;
        count->narrow += valid && !accepted && reason;
        count->wrong += wrong;
        if (wrong) diag("%s\t%s\t%s %s", file, description, valid ? "refuses valid" : "accepts what is not valid:", text);
    }
    if (reason && !narrow) count->wrong++, diag("%s: %s: all valid instances are accepted", file, description);
    zt_grammar_free(grammar);
    if (zt_mem_get(ctx).blocks) count->wrong++, diag("memory was left behind");
    zt_ctx_free(ctx);
}

static void check_suite(const char *path)
{
    json_error_t error;
    json_t *cases = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!cases) diag("%s: %s", path, error.text);
    const json_t *item;
    tally count = {0};
    size_t i;
    json_array_foreach(cases, i, item) check_case(item, &count);
    ok(cases && count.wrong == 0,
       "%d schemas of the test suite: %d not supported, by name; %d valid instances accepted, %d others refused, %d narrower than valid",
       count.schemas, count.unsupported, count.accepted, count.refused, count.narrow);
    ok(count.schemas - count.unsupported >= 150 && count.accepted >= 250 && count.refused >= 350, "most are supported");
    json_decref(cases);
}

/* ---- samples --------------------------------------------------------------------------------- */

enum { MOST_TEXTS = 10 };

static const struct {
    const char *schema;
    const char *fits[MOST_TEXTS], *fails[MOST_TEXTS]; /* up to NULL */
} samples[] = {
    {"{\"type\":\"integer\",\"minimum\":-37,\"maximum\":245}",
     {"-37", "0", "-1", "99", "100", "245"},
     {"-38", "246", "1.0", "-0", "00", "1000", "+1"}},
    {"{\"type\":\"integer\",\"exclusiveMinimum\":9,\"exclusiveMaximum\":12.5}", {"10", "11", "12"}, {"9", "13"}},
    {"{\"type\":\"integer\",\"minimum\":9007199254740993}",
     {"9007199254740993", "9223372036854775807"},
     {"9007199254740992", "0"}},
    {"{\"type\":\"integer\",\"maximum\":-100}", {"-100", "-9999999999"}, {"-99", "0", "100"}},
    {"{\"type\":\"number\",\"minimum\":0,\"maximum\":1}",
     {"0", "1", "0.5", "1.0", "1.000", "0.0"},
     {"1.5", "-0.1", "1.01", "2", "1e0", "-0"}},
    {"{\"type\":\"number\",\"exclusiveMinimum\":-2,\"exclusiveMaximum\":3}",
     {"-1.99", "-0.5", "2.999", "0"},
     {"-2", "-2.0", "3", "3.0", "-3"}},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     {"\"ab\"", "\"\\u00e9\\ud83d\\ude00\"", "\"\u00e9\u00e9\u00e9\""},
     {"\"a\"", "\"abcd\"", "\"a\nb\""}},
    {"{\"type\":\"string\",\"pattern\":\"^[a\\\"\\\\\\\\\\n]+$\"}",
     {"\"a\\\"\"", "\"\\\\\"", "\"\\n\""},
     {"\"\"", "\"b\"", "\"\n\""}},
    {"{\"type\":\"string\",\"pattern\":\"b\"}", {"\"b\"", "\"abc\"", "\"\u00e9\\\"b\""}, {"\"a\"", "b"}},
    {"{\"type\":[\"string\",\"null\"],\"enum\":[\"a\",null,3]}", {"\"a\"", "null"}, {"3", "\"b\""}},
    {"{\"type\":\"string\",\"nullable\":true}", {"\"a\"", "null"}, {"1"}},
    {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"null\"},\"c\":false},\"required\":[\"b\"]}",
     {"{\"b\":null}", "{\"a\":1,\"b\":null}", "{ \"a\": 1, \"b\": null }", "{\n  \"a\": 1,\n  \"b\": null\n}"},
     {"{}", "{\"a\":1}", "{\"b\":null,}", "{\"b\":null,\"c\":1}", "{\"a\":1 ,\"b\":null}", "{\"a\":1\"b\":null}"}},
    {"{\"properties\":{\"a\":{\"type\":\"integer\"}},\"additionalProperties\":{\"type\":\"null\"},\"type\":\"object\"}",
     {"{}", "{\"a\":1}", "{\"a\":1,\"b\":null}", "{\"aa\":null,\"\":null}"},
     {"{\"a\":null}", "{\"b\":1}", "{\"\\u0061\":null}", "{\"b\":null,\"a\":1}"}},
    {"{\"type\":\"object\",\"patternProperties\":{\"^x\":{\"type\":\"null\"}},\"additionalProperties\":false,\"maxProperties\":2}",
     {"{}", "{\"x\":null,\"x1\":null}"},
     {"{\"y\":null}", "{\"x\":1}", "{\"x\":null,\"x1\":null,\"x2\":null}"}},
    {"{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"string\"}},\"required\":[\"a\"]},{\"properties\":{\"b\":{\"type\":\"null\"}}}],\"type\":\"object\"}",
     {"{\"a\":\"x\"}", "{\"a\":\"x\",\"b\":null}"},
     {"{}", "{\"a\":1}", "{\"b\":null}"}},
    {"{\"type\":\"object\",\"properties\":{\"k\":{}},\"required\":[\"k\"],\"oneOf\":[{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]},"
     "{\"properties\":{\"k\":{\"const\":\"z\"}},\"required\":[\"k\"]}]}",
     {"{\"k\":1}", "{\"k\":\"z\"}"},
     {"{\"k\":2}", "{}"}},
    {"{\"$ref\":\"#/$defs/t\",\"$defs\":{\"t\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/t\"},\"maxItems\":2}}}",
     {"[]", "[[],[[]]]", "[[[[]]]]"},
     {"[1]", "[[],[],[]]", "[[]"}},
    {"{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"null\"}],\"items\":{\"const\":\"r\"},\"minItems\":1,\"maxItems\":3,\"type\":\"array\"}",
     {"[1]", "[1,null]", "[1, null, \"r\"]"},
     {"[]", "[null]", "[1,null,2]", "[1,null,\"r\",\"r\"]"}},
    {"{\"type\":\"string\",\"format\":\"date\"}",
     {"\"2024-02-29\"", "\"1999-12-31\""},
     {"\"2023-02-29\"", "\"2023-13-01\"", "\"1900-02-29\"", "\"0000-01-01\""}},
    {"{\"type\":\"string\",\"format\":\"ipv4\"}", {"\"0.10.255.1\""}, {"\"256.1.1.1\"", "\"1.1.1\"", "\"01.1.1.1\""}},
};

static void test_samples(void)
{
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        zt_ctx *ctx = zt_ctx_new();
        zt_grammar_part part = {.kind = ZT_GRAMMAR_SCHEMA, .name = "s", .text = {samples[i].schema, strlen(samples[i].schema)}};
        zt_grammar *grammar = zt_grammar_compile(ctx, &part, 1);
        bool right = grammar != NULL;
        for (int j = 0; grammar && j < MOST_TEXTS && samples[i].fits[j]; j++)
            if (!accepts(grammar, samples[i].fits[j])) right = false, diag("refuses %s", samples[i].fits[j]);
        for (int j = 0; grammar && j < MOST_TEXTS && samples[i].fails[j]; j++)
            if (accepts(grammar, samples[i].fails[j])) right = false, diag("accepts %s", samples[i].fails[j]);
        if (!ok(right, "%.70s", samples[i].schema)) diag("%s", zt_ctx_error(ctx));
        zt_grammar_free(grammar);
        zt_ctx_free(ctx);
    }
}

static const struct {
    const char *schema, *message;
} refused[] = {
    {"{\"multipleOf\":2}", "s: #: \"multipleOf\" is not supported"},
    {"{\"properties\":{\"a\":{\"items\":{\"not\":{}}}}}", "s: #/properties/a/items: \"not\" is not supported"},
    {"{\"allOf\":[{\"if\":{}}]}", "s: #: \"if\" is not supported"},
    {"{\"type\":\"strnig\"}", "s: #: \"type\" is not one of the names of types"},
    {"{\"maxLenght\":2}", "s: #: \"maxLenght\" is not supported"},
    {"{\"type\":\"string\",\"format\":\"uri\"}",
     "s: #: \"format\" is not supported: 'uri'; known are date, time, date-time, duration, email, hostname, ipv4, ipv6 and uuid"},
    {"{\"type\":\"string\",\"pattern\":\"^a\",\"minLength\":2}", "s: #: \"minLength\" is not supported: beside \"pattern\""},
    {"{\"type\":\"string\",\"pattern\":\"(?=a)\"}", "s: #: '(?=a)', offset 1: lookahead and lookbehind are not supported"},
    {"{\"type\":\"number\",\"minimum\":0.5}", "s: #: \"minimum\" is not supported: of numbers only a whole number is"},
    {"{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}",
     "s: #: \"oneOf\" is not supported where a value may fit two of the schemas, here 0 and 1: see anyOf"},
    {"{\"$ref\":\"other.json\"}",
     "s: #: \"$ref\": \"other.json\" is not supported: only references into the schema itself (#...) are"},
    {"{\"$ref\":\"#/$defs/x\"}", "s: #: \"$ref\": \"#/$defs/x\" is not there"},
    {"{\"$ref\":\"#\"}", "s: no text fits the grammar"},
    {"{\"allOf\":[{\"$ref\":\"#\"}]}",
     "s: #: schemas nest more than 200 deep, or one that is merged with others contains itself"},
    {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", "s: no text fits the grammar"},
    {"{\"type\":\"string\",\"maxLength\":99999}", "s: #: \"maxLength\" is not a whole number from 0 to 65536"},
    {"[]", "s: #: not a schema: an object, true or false expected"},
    {"{\"type\":\"array\",\"uniqueItems\":true}", "s: #: \"uniqueItems\" is not supported"},
    {"{\"type\":\"array\",\"items\":[{}]}", "s: #: \"items\" is not supported: as an array: see prefixItems"},
};

static void test_refused(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        zt_ctx *ctx = zt_ctx_new();
        zt_grammar_part part = {.kind = ZT_GRAMMAR_SCHEMA, .name = "s", .text = {refused[i].schema, strlen(refused[i].schema)}};
        zt_grammar *grammar = zt_grammar_compile(ctx, &part, 1);
        bool right = !grammar && zt_ctx_status(ctx) == ZT_EDATA && strcmp(zt_ctx_error(ctx), refused[i].message) == 0;
        if (!ok(right, "refused: %s", refused[i].message)) diag("but: %s", zt_ctx_error(ctx));
        zt_grammar_free(grammar);
        if (zt_mem_get(ctx).blocks) ok(false, "memory was left behind");
        zt_ctx_free(ctx);
    }
}

int main(int argc, char **argv)
{
    char path[512];
    const char *tests = getenv("ZT_TESTS");
    snprintf(path, sizeof path, "%s/../json_schema/cases.json", tests && *tests ? tests : dirname(argv[0]));
    check_suite(argc > 1 ? argv[1] : path);
    test_samples();
    test_refused();
    return tap_done();
}
