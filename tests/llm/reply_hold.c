/* reply_hold.c - replies that are held to calls of tools: in every form, which texts a grammar accepts, and that random texts which it
 * accepts are calls to the parser, whose arguments fit the schema.
 */
#include "lib/llm/grammar/grammar.h"
#include "lib/llm/reply/reply.h"
#include "tests/common/tap.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": {\"type\": \"object\", \"properties\":"
    " {\"city\": {\"type\": \"string\", \"maxLength\": 4}, \"days\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 7},"
    " \"unit\": {\"enum\": [\"C\", \"a <b\"]}, \"maybe\": {\"type\": [\"string\", \"null\"]},"
    " \"list\": {\"type\": \"array\", \"items\": {\"type\": \"object\", \"properties\": {\"on\": {\"type\": \"boolean\"}}, \"required\": [\"on\"]},"
    " \"maxItems\": 2}}, \"required\": [\"city\", \"days\"]}}}, {\"name\": \"now\"}]";

#define BAR       "\xef\xbd\x9c"
#define BLOCK     "\xe2\x96\x81"
#define DS(words) "<" BAR words BAR ">"

typedef struct hold_case {
    const char *name, *template;
    const char *calls; /* of weather(city="Rome", days=2, unit="a <b") and now() */
    const char *bad;   /* a call of weather with days=9 or no city, as far as the mistake */
} hold_case;

// clang-format off
static const hold_case cases[] = {
    {"qwen3-coder", "<tool_call> <function=x>", "<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
     "<parameter=unit>\na <b\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
     "<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n<parameter=days>\n9"},
    {"seed-oss", "<seed:tool_call>", "<seed:tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n<parameter=days>2</parameter>\n"
     "<parameter=unit>\na <b\n</parameter>\n</function>\n</seed:tool_call><seed:tool_call><function=now></function></seed:tool_call>",
     "<seed:tool_call>\n<function=weather>\n</"},
    {"glm", "<tool_call> <arg_key>", "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>\nRome\n</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n"
     "<arg_key>unit</arg_key><arg_value>\na <b\n</arg_value></tool_call>\n<tool_call>now</tool_call>", "<tool_call>weather\n<arg_key>d"},
    {"hunyuan", "<tool_call> <tool_sep> <arg_key>", "<tool_calls>\n<tool_call>weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>\nRome\n</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n"
     "<arg_key>unit</arg_key><arg_value>\na <b\n</arg_value></tool_call>\n<tool_call>now<tool_sep></tool_call></tool_calls>", "<tool_calls><tool_call>weather<tool_sep>\n<arg_key>d"},
    {"kimi-k3", "<|open|> <|close|> <|sep|>", "<|open|>tools<|sep|><|open|>call tool=\"weather\" index=\"1\"<|sep|><|open|>argument key=\"city\" type=\"string\"<|sep|>\nRome\n<|close|>argument<|sep|>"
     "<|open|>argument key=\"days\" type=\"number\"<|sep|>2<|close|>argument<|sep|><|open|>argument key=\"unit\" type=\"string\"<|sep|>\na <b\n<|close|>argument<|sep|><|close|>call<|sep|>"
     "<|open|>call tool=\"now\" index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>", "<|open|>tools<|sep|><|open|>call tool=\"weather\" index=\"1\"<|sep|><|open|>argument key=\"d"},
    {"minimax", "<minimax:tool_call>", "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">\nRome\n</parameter>\n<parameter name=\"days\">2</parameter>\n"
     "<parameter name=\"unit\">\na <b\n</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>", "<minimax:tool_call>\n<invoke name=\"no\""},
    {"minicpm", "<function name= <param name=", "<function name=\"weather\"><param name=\"city\">\nRome\n</param><param name=\"days\">2</param><param name=\"unit\">\na <b\n</param></function>"
     "<function name=\"now\"></function>", "<function name=\"weather\"><param name=\"city\">\nRome"  "s"},
    {"dsml", "<" BAR "DSML" BAR "function_calls>", "<" BAR "DSML" BAR "function_calls>\n<" BAR "DSML" BAR "invoke name=\"weather\">\n"
     "<" BAR "DSML" BAR "parameter name=\"city\" string=\"true\">\nRome\n</" BAR "DSML" BAR "parameter>\n<" BAR "DSML" BAR "parameter name=\"days\" string=\"false\">2</" BAR "DSML" BAR "parameter>\n"
     "<" BAR "DSML" BAR "parameter name=\"unit\" string=\"true\">\na <b\n</" BAR "DSML" BAR "parameter></" BAR "DSML" BAR "invoke>\n<" BAR "DSML" BAR "invoke name=\"now\"></" BAR "DSML" BAR "invoke>\n</" BAR "DSML" BAR "function_calls>",
     "<" BAR "DSML" BAR "function_calls>\n<" BAR "DSML" BAR "invoke name=\"weather\">\n<" BAR "DSML" BAR "parameter name=\"city\" string=\"f"},
    {"dsml-v4", "<" BAR "DSML" BAR "tool_calls>", "<" BAR "DSML" BAR "tool_calls>\n<" BAR "DSML" BAR "invoke name=\"weather\">\n"
     "<" BAR "DSML" BAR "parameter name=\"city\" string=\"true\">\nRome\n</" BAR "DSML" BAR "parameter>\n<" BAR "DSML" BAR "parameter name=\"days\" string=\"false\">2</" BAR "DSML" BAR "parameter>\n"
     "<" BAR "DSML" BAR "parameter name=\"unit\" string=\"true\">\na <b\n</" BAR "DSML" BAR "parameter></" BAR "DSML" BAR "invoke>\n<" BAR "DSML" BAR "invoke name=\"now\"></" BAR "DSML" BAR "invoke>\n</" BAR "DSML" BAR "tool_calls>",
     "<" BAR "DSML" BAR "tool_calls>\n<" BAR "DSML" BAR "invoke name=\"weather\">\n<" BAR "DSML" BAR "parameter name=\"city\" string=\"f"},
    {"gcml", "<" BAR "GCML" BAR "tool_calls>", "<" BAR "GCML" BAR "tool_calls>\n<" BAR "GCML" BAR "invoke name=\"weather\">\n"
     "<" BAR "GCML" BAR "parameter name=\"city\" string=\"true\">\nRome\n</" BAR "GCML" BAR "parameter>\n<" BAR "GCML" BAR "parameter name=\"days\" string=\"false\">2</" BAR "GCML" BAR "parameter>\n"
     "<" BAR "GCML" BAR "parameter name=\"unit\" string=\"true\">\na <b\n</" BAR "GCML" BAR "parameter></" BAR "GCML" BAR "invoke>\n<" BAR "GCML" BAR "invoke name=\"now\"></" BAR "GCML" BAR "invoke>\n</" BAR "GCML" BAR "tool_calls>",
     "<" BAR "GCML" BAR "tool_calls>\n<" BAR "GCML" BAR "invoke name=\"weather\">\n<" BAR "GCML" BAR "parameter name=\"city\" string=\"f"},
    {"longcat", "<longcat_tool_call> <longcat_arg_key>", "<longcat_tool_call>weather\n<longcat_arg_key>city</longcat_arg_key>\n<longcat_arg_value>\nRome\n</longcat_arg_value>\n<longcat_arg_key>days</longcat_arg_key>\n<longcat_arg_value>2</longcat_arg_value>\n"
     "<longcat_arg_key>unit</longcat_arg_key><longcat_arg_value>\na <b\n</longcat_arg_value></longcat_tool_call>\n<longcat_tool_call>now</longcat_tool_call>", "<longcat_tool_call>weather\n<longcat_arg_key>d"},
    {"longcat-json", "<longcat_tool_call>", "<longcat_tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}}\n</longcat_tool_call>\n<longcat_tool_call>{\"name\":\"now\",\"arguments\":{}}</longcat_tool_call>", "<longcat_tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 9"},
    {"tool_calls", "<tool_calls>[", "<tool_calls>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}}, {\"name\":\"now\",\"arguments\":{}}]</tool_calls>", "<tool_calls>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 9"},
    {"tool_calls", "<tool_calls>\n", "<tool_calls>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}}\n{\"name\":\"now\",\"arguments\":{}}\n</tool_calls>", "<tool_calls>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 9"},
    {"gigachat3.1", "<|function_call|>", "<|function_call|>{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}}<|function_call|>{\"name\":\"now\",\"arguments\":{}}", "<|function_call|>{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 9"},
    {"gigachat3", "'function call' <|role_sep|>", "function call<|role_sep|>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}} function call<|role_sep|>\n{\"name\":\"now\",\"arguments\":{}}", "function call<|role_sep|>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 9"},
    {"internlm2", "<|action_start|><|plugin|>", "<|action_start|><|plugin|>\n{\"name\": \"weather\", \"parameters\": {\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}}<|action_end|><|action_start|><|plugin|>\n{\"name\":\"now\",\"parameters\":{}}<|action_end|>", "<|action_start|><|plugin|>\n{\"name\": \"weather\", \"parameters\": {\"city\": \"Rome\", \"days\": 9"},
    {"olmo3", "<function_calls>", "<function_calls>weather(city=\"Rome\", days=2, unit=\"a <b\")\nnow()</function_calls>", "<function_calls>weather(city=\"Rome\", days=9"},
    {"hermes", "<tool_call>", "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}}\n</tool_call>\n<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>",
     "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 9"},
    {"hermes, arguments first", "<tool_call>{\"arguments\": <args-dict>, \"name\": <function-name>}",
     "<tool_call>\n{\"arguments\": {\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}, \"name\": \"weather\"}\n</tool_call><tool_call>{\"arguments\":{},\"name\":\"now\"}</tool_call>",
     "<tool_call>\n{\"arguments\": {}, \"name\": \"w"},
    {"deepseek, fences", DS("tool" BLOCK "call" BLOCK "begin") "```json", DS("tool" BLOCK "calls" BLOCK "begin") DS("tool" BLOCK "call" BLOCK "begin") "function" DS("tool" BLOCK "sep")
     "weather\n```json\n{\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}\n```" DS("tool" BLOCK "call" BLOCK "end") "\n" DS("tool" BLOCK "call" BLOCK "begin") "function" DS("tool" BLOCK "sep")
     "now\n```json\n{}\n```" DS("tool" BLOCK "call" BLOCK "end") DS("tool" BLOCK "calls" BLOCK "end"), DS("tool" BLOCK "call" BLOCK "begin") "function" DS("tool" BLOCK "sep") "weather\n{"},
    {"deepseek", DS("tool" BLOCK "call" BLOCK "begin"), DS("tool" BLOCK "calls" BLOCK "begin") DS("tool" BLOCK "call" BLOCK "begin") "weather" DS("tool" BLOCK "sep")
     "{\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}" DS("tool" BLOCK "call" BLOCK "end") DS("tool" BLOCK "call" BLOCK "begin") "now" DS("tool" BLOCK "sep") "{}" DS("tool" BLOCK "call" BLOCK "end") DS("tool" BLOCK "calls" BLOCK "end"),
     DS("tool" BLOCK "call" BLOCK "begin") "weather" DS("tool" BLOCK "sep") "{}"},
    {"kimi", "<|tool_call_argument_begin|>", "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}<|tool_call_end|>"
     "<|tool_call_begin|>functions.now:11<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>", "<|tool_call_begin|>weather"},
    {"mistral", "[TOOL_CALLS]", "[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}}, {\"name\": \"now\", \"arguments\": {}}]",
     "[TOOL_CALLS] [{\"name\": \"rm\""},
    {"mistral, [ARGS]", "[TOOL_CALLS] [ARGS]", "[TOOL_CALLS]weather[ARGS]{\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}[TOOL_CALLS]now[ARGS]{}", "[TOOL_CALLS]now[ARGS]{\""},
    {"mistral, [CALL_ID]", "[TOOL_CALLS] [CALL_ID] [ARGS]", "[TOOL_CALLS]weather[CALL_ID]abc123DEF[ARGS]{\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}[TOOL_CALLS]now[CALL_ID]abcdefghi[ARGS]{}",
     "[TOOL_CALLS]weather[CALL_ID]abc["},
    {"solar", "<|tool_call:begin|>", "<|tool_calls|><|tool_call:begin|>abcdefghi<|tool_call:name|>weather<|tool_call:args|>{\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}<|tool_call:end|>"
     "<|tool_call:begin|>abcdefghj<|tool_call:name|>now<|tool_call:args|>{}<|tool_call:end|>", "<|tool_call:begin|>abcdefghi<|tool_call:name|>x"},
    {"functionary", "<function=x></function>", "<function=weather>{\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}</function><function=now>{}</function>", "<function=weathers"},
    {"command-r", "<|START_ACTION|>", "<|START_ACTION|>[\n  {\"tool_call_id\": \"0\", \"tool_name\": \"weather\", \"parameters\": {\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}},\n"
     "  {\"tool_call_id\": \"1\", \"tool_name\": \"now\", \"parameters\": {}}\n]<|END_ACTION|>", "<|START_ACTION|>[]"},
    {"nemotron", "<TOOLCALL>", "<TOOLCALL>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}}, {\"name\": \"now\", \"arguments\": {}}]</TOOLCALL>", "<TOOLCALL>{"},
    {"granite", "<|tool_call|>", "<|tool_call|>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}}, {\"name\": \"now\", \"arguments\": {}}]", "<|tool_call|>[]"},
    {"apertus", "<|tools_prefix|>", "<|tools_prefix|>[{\"weather\": {\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}}, {\"now\": {}}]<|tools_suffix|>", "<|tools_prefix|>[{\"name"},
    {"firefunction", "functools[", "functools[{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}}, {\"name\": \"now\", \"arguments\": {}}]", "functools("},
    {"lfm2", "<|tool_call_start|>", "<|tool_call_start|>[weather(city=\"Rome\", days=2, unit=\"a <b\"), now()]<|tool_call_end|>", "<|tool_call_start|>[weather(days"},
    {"gemma4", "<|tool_call>", "<|tool_call>call:weather{city:<|\"|>Rome<|\"|>,days:2,unit:<|\"|>a <b<|\"|>}<tool_call|><|tool_call>call:now{}<tool_call|>", "<|tool_call>call:weather{city:\""},
    {"functiongemma", "<start_function_call>", "<start_function_call>call:weather{city:<escape>Rome<escape>,days:2,unit:<escape>a <b<escape>}<end_function_call>"
     "<start_function_call>call:now{}<end_function_call>", "<start_function_call>call:weather{}"},
    {"tool_code", "```tool_code", "```tool_code\nweather(city=\"Rome\", days=2, unit=\"a <b\")\n```\n```tool_code\nnow()\n```", "```tool_code\nimport"},
    {"pythonic", "[func_name1(params_name1=1)]", "[weather(city=\"Rome\", days=2, unit=\"a <b\"), now()]", "[weather(town"},
    {"llama3", "{\"name\": x, \"parameters\": y}", "{\"name\": \"weather\", \"parameters\": {\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}}; {\"name\": \"now\", \"parameters\": {}}", "{\"name\": \"x"},
    {"json", "{\"name\": x, \"arguments\": y}", "{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}};\n{\"name\": \"now\", \"arguments\": {}}", "{\"name\": \"weather\", \"p"},
    {"harmony", "<|start|><|channel|><|message|>", "<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"Rome\", \"days\": 2, \"unit\": \"a <b\"}<|call|><|start|>assistant"
     " to=functions.now<|channel|>commentary<|message|>{}", "<|channel|>commentary to=browser"},
};
// clang-format on

static json_t *tools;

static zt_bytes bytes_of(const char *text) { return (zt_bytes){text, strlen(text)}; }

static zt_reply_hold hold_of(const hold_case *c)
{
    return (zt_reply_hold){.template_text = bytes_of(c->template), .prompt = bytes_of(""), .tools = tools};
}

/* Is the text accepted, and may it end there? */
static bool accepts(zt_ctx *ctx, const zt_reply_hold *hold, const char *text, bool end)
{
    bool fits = false;
    zt_grammar *grammar = zt_reply_grammar(ctx, hold);
    zt_grammar_matcher *matcher = zt_grammar_matcher_new(grammar, NULL);
    if (!matcher) diag("%s", zt_ctx_error(ctx));
    if (matcher && zt_grammar_matcher_accept(matcher, text, strlen(text), &fits) != ZT_OK) diag("%s", zt_ctx_error(ctx));
    fits = fits && (!end || zt_grammar_matcher_complete(matcher));
    zt_grammar_matcher_free(matcher);
    zt_grammar_free(grammar);
    return fits;
}

/* The calls that the parser reports: "NAME ARGUMENTS;". */
static char *parse(zt_ctx *ctx, const hold_case *c, const char *text)
{
    zt_reply_opts opts = {.template_text = bytes_of(c->template), .prompt = bytes_of(""), .tools = tools, .held = true};
    zt_reply *reply = zt_reply_new(ctx, &opts);
    zt_str calls;
    zt_str_init(&calls, ctx);
    zt_reply_put(reply, text, strlen(text), false);
    zt_reply_end(reply);
    for (int i = 0; i < zt_reply_call_count(reply); i++)
        zt_str_printf(&calls, "%s %s;", zt_reply_call(reply, i)->name, zt_reply_call(reply, i)->arguments);
    if (zt_reply_fault(reply)) zt_str_printf(&calls, "(%s)", zt_reply_fault(reply));
    char *copy = strdup(calls.data ? calls.data : "");
    zt_str_fini(&calls);
    zt_reply_free(reply);
    return copy;
}

static char *join(const char *first, const char *second)
{
    char *text = malloc(strlen(first) + strlen(second) + 1);
    strcpy(text, first);
    return strcat(text, second);
}

static bool is_bare(const hold_case *c) { return *c->calls == '{' || *c->calls == '[' ? c->calls[1] != 'T' : false; }

static void test_texts(zt_ctx *ctx, const hold_case *c)
{
    static const char wanted[] = "weather {\"city\":\"Rome\",\"days\":2,\"unit\":\"a <b\"};now {};";
    zt_reply_hold hold = hold_of(c), required = hold, one = hold, only = hold;
    const char *now[] = {"now"};
    bool harmony = strcmp(c->name, "harmony") == 0, bare = is_bare(c);
    required.required = one.one = only.required = true;
    only.only = now;
    only.only_count = 1;
    const char *before = harmony ? "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
                         : bare  ? " \n"
                                 : "Well, {\"a\"} <to [";
    char *text = join(before, c->calls), *bad = join(before, c->bad);
    ok(accepts(ctx, &hold, text, true), "%s: calls are accepted after text", c->name);
    ok(accepts(ctx, &hold, "Just text, with {\"name", true) && accepts(ctx, &hold, "", true), "%s: text is accepted", c->name);
    ok(!accepts(ctx, &hold, bad, false), "%s: what does not fit is not accepted", c->name);
    ok(accepts(ctx, &required, c->calls, true), "%s: required calls are accepted", c->name);
    ok(!accepts(ctx, &required, "W", false) && !accepts(ctx, &required, "", true), "%s: where calls are required, text is not",
       c->name);
    ok(!accepts(ctx, &one, c->calls, true), "%s: where one call is allowed, two are not", c->name);
    ok(!accepts(ctx, &only, c->calls, false), "%s: of a named tool only", c->name);
    char *calls = parse(ctx, c, text);
    ok(strcmp(calls, wanted) == 0, "%s: the parser sees the calls", c->name);
    if (strcmp(calls, wanted) != 0) diag("%s", calls);
    free(calls);
    free(text);
    free(bad);
}

/* Byte by byte: the arguments of a call that is being written only grow, and become those of the call. */
static void test_open_call(zt_ctx *ctx, const hold_case *c)
{
    zt_reply_opts opts = {.template_text = bytes_of(c->template), .prompt = bytes_of(""), .tools = tools, .held = true};
    zt_reply *reply = zt_reply_new(ctx, &opts);
    char last[256] = "", name[64] = "";
    int grown = 0, wrong = 0, index = 0;
    for (const char *at = c->calls; *at; at++) {
        zt_reply_put(reply, at, 1, false);
        const zt_tool_call *open = zt_reply_open_call(reply);
        for (; index < zt_reply_call_count(reply); index++) {
            const zt_tool_call *call = zt_reply_call(reply, index);
            wrong += strncmp(call->arguments, last, strlen(last)) != 0 || (*name && strcmp(call->name, name) != 0);
            last[0] = name[0] = 0;
        }
        if (!open) continue;
        wrong += strncmp(open->arguments, last, strlen(last)) != 0;
        grown += strlen(open->arguments) > strlen(last);
        snprintf(last, sizeof last, "%s", open->arguments);
        snprintf(name, sizeof name, "%s", open->name);
    }
    zt_reply_end(reply);
    bool json = strstr(c->calls, "{\"city\"") && !strstr(c->calls, "[{") && !strstr(c->calls, "{\"arguments\"") &&
                !strstr(c->calls, "[\n");
    ok(wrong == 0 && (json ? grown > 20 : grown == 0), "%s: arguments grow as they are written, %d times", c->name, grown);
    zt_reply_free(reply);
}

/* ---- random texts -------------------------------------------------------------------------------- */

static uint32_t seed = 1;

static uint32_t draw(void)
{
    seed ^= seed << 13, seed ^= seed >> 17, seed ^= seed << 5;
    return seed;
}

/* A text that the grammar accepts, byte by byte; toward the end, bytes that close something are preferred. */
static bool random_text(zt_grammar *grammar, char *text, size_t most)
{
    zt_grammar_matcher *matcher = zt_grammar_matcher_new(grammar, NULL);
    size_t size = 0;
    bool whole = false;
    for (; size < most; size++) {
        unsigned char allowed[256];
        size_t count = 0;
        bool fits;
        for (int byte = 1; byte < 256; byte++) {
            zt_grammar_matcher *trial = zt_grammar_matcher_clone(matcher);
            if (byte != 0xff && zt_grammar_matcher_accept(trial, (char[]){(char)byte}, 1, &fits) == ZT_OK && fits)
                allowed[count++] = (unsigned char)byte;
            zt_grammar_matcher_free(trial);
        }
        whole = zt_grammar_matcher_complete(matcher);
        if (count == 0 || (whole && draw() % 4 == 0)) break;
        unsigned char byte = allowed[draw() % count];
        static const char closing[] = "\"}])></";
        for (int i = 0; i < 7 && draw() % 3 && size > most / 8; i++)
            for (size_t k = 0; k < count; k++)
                if (allowed[k] == closing[(i + (int)(draw() % 7)) % 7]) byte = allowed[k];
        text[size] = (char)byte;
        zt_grammar_matcher_accept(matcher, text + size, 1, &fits);
    }
    text[size] = 0;
    zt_grammar_matcher_free(matcher);
    return whole;
}

/* Are the arguments valid by a schema of tools_text? Checked by hand. */
static bool fits_schema(const char *calls)
{
    const char *hit = strstr(calls, "weather ");
    if (!hit) return strncmp(calls, "now {};", 7) == 0;
    json_t *arguments = json_loads(hit + 8, JSON_DISABLE_EOF_CHECK, NULL), *value;
    const char *key, *city = json_string_value(json_object_get(arguments, "city"));
    json_int_t days = json_integer_value(json_object_get(arguments, "days"));
    bool good = city && days >= 1 && days <= 7;
    size_t characters = 0, index;
    for (const char *at = city; good && *at; at++) characters += (*at & 0xc0) != 0x80;
    json_object_foreach(arguments, key, value)
    {
        bool known = strcmp(key, "city") == 0 || strcmp(key, "days") == 0;
        if (strcmp(key, "unit") == 0)
            known = json_is_string(value) &&
                    (strcmp(json_string_value(value), "C") == 0 || strcmp(json_string_value(value), "a <b") == 0);
        if (strcmp(key, "maybe") == 0) known = json_is_string(value) || json_is_null(value);
        if (strcmp(key, "list") == 0) {
            json_t *item;
            known = json_is_array(value) && json_array_size(value) <= 2;
            json_array_foreach(value, index, item) known = known && json_is_boolean(json_object_get(item, "on"));
        }
        good = good && known;
    }
    json_decref(arguments);
    return good && characters <= 4;
}

static void test_random(zt_ctx *ctx, const hold_case *c)
{
    enum { TEXTS = 12, MOST = 3000 };
    static char text[MOST + 1];
    zt_reply_hold hold = hold_of(c);
    hold.required = hold.one = true;
    zt_grammar *grammar = zt_reply_grammar(ctx, &hold);
    int whole = 0, good = 0;
    for (int i = 0; i < TEXTS; i++) {
        if (!random_text(grammar, text, MOST)) continue;
        char *calls = parse(ctx, c, text);
        bool fits = !strstr(calls, "(") || strstr(calls, "(tool call") == NULL;
        fits = fits && fits_schema(calls);
        whole++;
        good += fits;
        if (!fits) diag("%s: %s\n---\n%s", c->name, calls, text);
        free(calls);
    }
    ok(whole > 0 && good == whole, "%s: %d of %d random texts that are accepted are valid calls", c->name, good, whole);
    zt_grammar_free(grammar);
}

/* ---- the rest -------------------------------------------------------------------------------------- */

static void test_reasoning(zt_ctx *ctx)
{
    zt_reply_hold hold = {.template_text = bytes_of("<tool_call> <think> </think>"), .prompt = bytes_of(""), .tools = tools};
    zt_reply_hold required = hold, opened = hold;
    static const char call[] = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
    char *thought = join("<think>a <tool_call>{} </think>\n\n", call), *rest = join("a <tool_call>[ </think>\n", call);
    required.required = true;
    opened.prompt = bytes_of("x<think>\n");
    ok(accepts(ctx, &hold, thought, true), "in reasoning, a mark means nothing");
    ok(accepts(ctx, &hold, "a <think> b", true) && !accepts(ctx, &hold, "a <think><tool_call>x", false), "reasoning comes first");
    ok(accepts(ctx, &required, thought, true) && !accepts(ctx, &required, "<think>a</think> b", false),
       "a required call after reasoning");
    ok(!accepts(ctx, &required, "<think>a", true), "where a call is required, a reply does not end in its reasoning");
    ok(accepts(ctx, &opened, rest, true) && !accepts(ctx, &opened, "</think><tool_call>[", false),
       "the prompt opened the reasoning");
    opened.required = true;
    ok(accepts(ctx, &opened, rest, true) && !accepts(ctx, &opened, "a</think>b", false), "the same, and a call is required");
    free(thought);
    free(rest);
}

static void test_content(zt_ctx *ctx)
{
    zt_grammar_part part = {
        .kind = ZT_GRAMMAR_SCHEMA,
        .text = bytes_of("{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}}, \"required\": [\"a\"]}")};
    zt_reply_hold hold = {
        .template_text = bytes_of("<tool_call> <think>"), .prompt = bytes_of(""), .tools = tools, .content = &part};
    static const char call[] = "<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>";
    char *two = join(call, "\n<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>"), *text = join(call, "x");
    ok(accepts(ctx, &hold, "{\"a\": 1}", true) && accepts(ctx, &hold, two, true), "content by a schema, or calls");
    ok(!accepts(ctx, &hold, "{\"b", false) && !accepts(ctx, &hold, text, false), "nothing else");
    ok(accepts(ctx, &hold, "<think>x</think>\n{\"a\": 1}", true), "either after reasoning");
    hold.template_text = bytes_of("<|start|><|channel|><|message|>");
    ok(accepts(ctx, &hold, "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>{\"a\": 1}", true),
       "harmony: the final channel");
    ok(!accepts(ctx, &hold, "<|channel|>final<|message|>{\"b", false), "harmony: nothing else");
    free(two);
    free(text);
}

static void test_refusals(zt_ctx *ctx)
{
    static const char *const rows[][3] = {
        {"<tool_call>", "[{\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"properties\": {\"a\": {\"not\": {}}}}}]",
         "f: parameters: #/properties/a: \"not\""},
        {"<tool_call>", "[{\"name\": \"f\", \"parameters\": {\"type\": \"string\"}}]", "not a schema of objects"},
        {"<tool_call>", "[{\"name\": \"\\u00e9\"}]", "is not a name"},
        {"<tool_call>", "[{\"name\": \"f\"}, {\"name\": \"f\"}]", "two tools"},
        {"<tool_call>", "[{\"title\": \"f\"}]", "no name"},
        {"{{ x }}", "[{\"name\": \"f\"}]", "form of tool calls is unknown"},
        {"<tool_call><function=", "[{\"name\": \"f\", \"parameters\": {\"type\": \"object\", \"minProperties\": 1}}]",
         "\"minProperties\" is not supported"},
        {"<tool_call><function=", "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a b\": {}}}}]",
         "'a b' cannot be written"},
        {"<tool_call><function=",
         "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"enum\": [\"</tool_call>\"]}}}}]", "cannot be written"},
        {"<|tool_call>", "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"enum\": [\"<|\\\"|>\"]}}}}]",
         "ends a string"},
        {"(params_name1", "[{\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {}}, \"required\": [\"b\"]}}]",
         "names 'b'"},
        {"]<]minimax[>[ <tool_call>", "[{\"name\": \"f\"}]", "in the form 'minimax-m3' cannot be constrained"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *list = json_loads(rows[i][1], 0, NULL);
        zt_reply_hold hold = {.template_text = bytes_of(rows[i][0]), .prompt = bytes_of(""), .tools = list};
        zt_grammar *grammar = zt_reply_grammar(ctx, &hold);
        ok(!grammar && zt_ctx_status(ctx) == ZT_EDATA && strstr(zt_ctx_error(ctx), rows[i][2]), "refused: %s", rows[i][2]);
        if (grammar || !strstr(zt_ctx_error(ctx), rows[i][2])) diag("%s", zt_ctx_error(ctx));
        zt_ctx_clear(ctx);
        zt_grammar_free(grammar);
        json_decref(list);
    }
}

static void test_faults(const hold_case *c)
{
    zt_ctx *ctx = zt_ctx_new();
    int count = 0, wrong = 0;
    zt_reply_hold hold = hold_of(c);
    for (bool done = false; !done && count < 100000;) {
        count += count < 50 ? 1 : 1 + count / 12;
        zt_mem_fail(ctx, (uint64_t)count, false);
        zt_grammar *grammar = zt_reply_grammar(ctx, &hold);
        done = grammar != NULL;
        wrong += zt_ctx_status(ctx) != (done ? ZT_OK : ZT_ENOMEM);
        zt_mem_fail(ctx, 0, false);
        zt_ctx_clear(ctx);
        zt_grammar_free(grammar);
        wrong += zt_mem_get(ctx).blocks != 0;
    }
    ok(count > 50 && count < 100000 && !wrong, "%s: allocations failing up to the %dth", c->name, count);
    zt_ctx_free(ctx);
}

int main(void)
{
    zt_ctx *ctx = zt_ctx_new();
    tools = json_loads(tools_text, 0, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_texts(ctx, &cases[i]);
        test_open_call(ctx, &cases[i]);
        test_random(ctx, &cases[i]);
    }
    test_reasoning(ctx);
    test_content(ctx);
    test_refusals(ctx);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i += 4) test_faults(&cases[i]);
    zt_ctx_free(ctx);
    json_decref(tools);
    return tap_done();
}
