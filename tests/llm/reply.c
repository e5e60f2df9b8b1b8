/* reply.c - replies taken apart into content, reasoning and tool calls: every form of the tables, in pieces of one
 * byte, of seven bytes and whole; what is not a call; bounds and time; failing allocations.
 */
#include "lib/llm/reply/reply.h"
#include "tests/common/tap.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char tools_text[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": {\"type\": \"object\", \"properties\":"
    " {\"city\": {\"type\": \"string\"}, \"days\": {\"type\": \"integer\"}, \"deep\": {\"type\": \"object\"},"
    " \"maybe\": {\"type\": [\"string\", \"null\"]}, \"on\": {\"type\": \"boolean\"}}}}},"
    " {\"name\": \"now\", \"description\": \"the time\"}]";

#define BAR       "\xef\xbd\x9c"
#define BLOCK     "\xe2\x96\x81"
#define DS(words) "<" BAR words BAR ">"

/* Templates, as far as the tables look at them. */
static const char hermes[] = "tools ... <tool_call>\n{}</tool_call> <think> </think>", qwen[] = "<tool_call>\n<function=x>",
                  seed[] = "<seed:tool_call> <seed:think>", glm[] = "<tool_call>name<arg_key></think>",
                  minimax[] = "<minimax:tool_call>", minimax3[] = "']<]minimax[>[' '<tool_call>' <mm:think>",
                  hunyuan[] = "<tool_calls><tool_call><tool_sep><arg_key><think>", kimi3[] = "'<|open|>' '<|close|>' '<|sep|>'",
                  gcml[] = "<" BAR "GCML" BAR "tool_calls>", longcat[] = "<longcat_tool_call> <longcat_arg_key>",
                  longcat_json[] = "<longcat_tool_call>", listed[] = "<tool_calls>[", lines[] = "<tool_calls>\n",
                  giga31[] = "<|function_call|>", giga3[] = "'function call' <|role_sep|>",
                  internlm[] = "<|action_start|><|plugin|>", olmo[] = "<function_calls>",
                  dsml4[] = "<" BAR "DSML" BAR "tool_calls></think>",
                  minicpm[] = "<function name= <param name=", dsml[] = "<" BAR "DSML" BAR "function_calls></think>",
                  deepseek[] = DS("tool" BLOCK "call" BLOCK "begin") " <think>", kimi[] = "<|tool_call_argument_begin|>",
                  mistral[] = "[TOOL_CALLS] [THINK]", solar[] = "<|tool_call:begin|>", functionary[] = "<function=x></function>",
                  cohere[] = "<|START_ACTION|> <|START_THINKING|>", nemotron[] = "<TOOLCALL>", granite[] = "<|tool_call|>",
                  apertus[] = "<|tools_prefix|> <|inner_prefix|>", fire[] = "functools[", lfm[] = "<|tool_call_start|>",
                  gemma4[] = "<|tool_call> <|channel>", functiongemma[] = "<start_function_call>", code[] = "```tool_code",
                  pythonic[] = "[func_name1(params_name1=1)]", llama[] = "{\"name\": x, \"parameters\": y}",
                  bare[] = "{\"name\": x, \"arguments\": y}", harmony[] = "<|start|><|channel|><|message|>", plain[] = "{{ x }}";

typedef struct reply_case {
    const char *what, *template, *prompt, *text;
    const char *content, *reasoning, *calls; /* calls: NAME ARGUMENTS; with #ID where there is one */
    const char *fault;                       /* a part of it; NULL: there is none */
} reply_case;

#define PARIS "weather {\"city\":\"Paris\"};"

// clang-format off
static const reply_case cases[] = {
    {"text", hermes, "", "Hello <b> world\n", "Hello <b> world\n", "", "", NULL},
    {"text without a template", "", "", "<think>a</think><tool_call>", "<think>a</think><tool_call>", "", "", NULL},
    {"reasoning", hermes, "", "<think>\nhm, <b>\n</think>\n\nYes.\n", "Yes.\n", "hm, <b>", "", NULL},
    {"reasoning that the prompt opened", hermes, "x<think>\n", "hm\n</think>\n\nYes", "Yes", "hm", "", NULL},
    {"reasoning that the prompt closed", hermes, "<think>\n\n</think>\n\n", "Yes", "Yes", "", "", NULL},
    {"reasoning without an end", hermes, "<think>", "hm and on ", "", "hm and on", "", NULL},
    {"a mark in the middle is text", hermes, "", "a <think>b</think>", "a <think>b</think>", "", "", NULL},
    {"a mark of the reasoning in the reasoning", hermes, "<think>", "a <think> b</think>c", "c", "a <think> b", "", NULL},
    {"no call in the reasoning", hermes, "<think>", "<tool_call>{}</think>c", "c", "<tool_call>{}", "", NULL},

    {"Hermes", hermes, "", "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</tool_call>", "", "", PARIS, NULL},
    {"Hermes, two, after text", hermes, "", "<think>x</think>I look.\n<tool_call>\n{\"name\":\"weather\",\"arguments\":{\"city\":\"Paris\"}}\n</tool_call>\n"
     "<tool_call>{\"arguments\": {}, \"name\": \"now\"}</tool_call>", "I look.", "x", PARIS "now {};", NULL},
    {"Hermes, the mark in a string", hermes, "", "<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"</tool_call> } \\\" {\"}}</tool_call>",
     "", "", "weather {\"city\":\"</tool_call> } \\\" {\"};", NULL},
    {"Hermes, without the end mark", hermes, "", "<tool_call>{\"name\": \"now\", \"arguments\": {}}", "", "", "now {};", NULL},
    {"Hermes, text after a call", hermes, "", "<tool_call>{\"name\": \"now\"}</tool_call>\nDone.", "Done.", "", "now {};", NULL},
    {"Hermes, arguments as a text", hermes, "", "<tool_call>{\"name\": \"weather\", \"arguments\": \"{\\\"city\\\": \\\"Paris\\\"}\"}</tool_call>", "", "", PARIS, NULL},
    {"Hermes, a list", hermes, "", "<tool_call>[{\"name\": \"now\"}, {\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}]</tool_call>", "", "", "now {};" PARIS, NULL},
    {"OpenAI's shape", hermes, "", "<tool_call>{\"id\": \"a1\", \"type\": \"function\", \"function\": {\"name\": \"now\", \"arguments\": \"{}\"}}</tool_call>", "", "", "now#a1 {};", NULL},
    {"numbers stay as written", hermes, "", "<tool_call>{\"name\": \"weather\", \"arguments\": {\"days\": 123456789012345678901234567890, \"x\": [ 1.50, -0 ]}}</tool_call>",
     "", "", "weather {\"days\":123456789012345678901234567890,\"x\":[1.50,-0]};", NULL},
    {"not JSON", hermes, "", "a <tool_call>{\"name\": now}</tool_call> b", "a<tool_call>{\"name\": now}</tool_call> b", "", "", "not valid JSON"},
    {"not a tool", hermes, "", "<tool_call>{\"name\": \"rm\", \"arguments\": {}}</tool_call>", "<tool_call>{\"name\": \"rm\", \"arguments\": {}}</tool_call>", "", "", "'rm' is not one of the tools"},
    {"arguments that are not an object", hermes, "", "<tool_call>{\"name\": \"now\", \"arguments\": [1]}</tool_call>", "<tool_call>{\"name\": \"now\", \"arguments\": [1]}</tool_call>", "", "", "not a JSON object"},
    {"no name", hermes, "", "<tool_call>{\"x\": 1}</tool_call>", "<tool_call>{\"x\": 1}</tool_call>", "", "", "no name"},
    {"two names", hermes, "", "<tool_call>{\"name\": \"now\", \"name\": \"weather\"}</tool_call>", "<tool_call>{\"name\": \"now\", \"name\": \"weather\"}</tool_call>", "", "", "twice"},
    {"cut", hermes, "", "<tool_call>{\"name\": \"now\", \"argum", "<tool_call>{\"name\": \"now\", \"argum", "", "", "not complete"},
    {"half of a list", hermes, "", "<tool_call>[{\"name\": \"now\"}, {\"name\": \"rm\"}]</tool_call>", "<tool_call>[{\"name\": \"now\"}, {\"name\": \"rm\"}]</tool_call>", "", "", "'rm'"},
    {"a bad one and a good one", hermes, "", "<tool_call>{]</tool_call><tool_call>{\"name\": \"now\"}</tool_call>", "<tool_call>{]</tool_call>", "", "now {};", "not valid JSON"},

    {"Qwen3-Coder", qwen, "", "Ok.\n\n<tool_call>\n<function=weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
     "<parameter=deep>\n{\"a\": [1, null]}\n</parameter>\n<parameter=on>\nTrue\n</parameter>\n</function>\n</tool_call>", "Ok.", "",
     "weather {\"city\":\"Paris\",\"days\":2,\"deep\":{\"a\":[1,null]},\"on\":true};", NULL},
    {"Qwen3-Coder, a number as a text", qwen, "", "<tool_call><function=weather><parameter=city>\n12\n</parameter><parameter=maybe>null</parameter></function></tool_call>", "", "",
     "weather {\"city\":\"12\",\"maybe\":null};", NULL},
    {"Qwen3-Coder, lines and marks in a value", qwen, "", "<tool_call>\n<function=weather>\n<parameter=city>\n a\n\"b\" <x>\n\n</parameter>\n</function>\n</tool_call>", "", "",
     "weather {\"city\":\" a\\n\\\"b\\\" <x>\\n\"};", NULL},
    {"Qwen3-Coder, two, no arguments", qwen, "", "<tool_call>\n<function=now>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>", "", "", "now {};now {};", NULL},
    {"Qwen3-Coder, cut", qwen, "", "<tool_call>\n<function=weather>\n<parameter=city>\nPar", "<tool_call>\n<function=weather>\n<parameter=city>\nPar", "", "", "tags"},
    {"Seed-OSS", seed, "", "<seed:think>hm</seed:think><seed:tool_call>\n<function=weather>\n<parameter=city>Paris</parameter>\n</function>\n</seed:tool_call>", "", "hm", PARIS, NULL},
    {"GLM", glm, "<think></think>", "\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>", "", "",
     "weather {\"city\":\"Paris\",\"days\":3};", NULL},
    {"GLM, no arguments", glm, "", "<tool_call>now\n</tool_call>", "", "", "now {};", NULL},
    {"MiniMax, two in one", minimax, "", "<minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">Paris</parameter>\n</invoke>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>", "", "",
     PARIS "now {};", NULL},
    {"MiniCPM", minicpm, "", "a<function name=\"weather\"><param name=\"city\"><![CDATA[a<b&\n]]></param></function><function name=\"now\"></function>", "a", "",
     "weather {\"city\":\"a<b&\\n\"};now {};", NULL},
    {"DSML", dsml, "", "<" BAR "DSML" BAR "function_calls>\n<" BAR "DSML" BAR "invoke name=\"weather\">\n<" BAR "DSML" BAR "parameter name=\"city\" string=\"true\">12</" BAR "DSML" BAR
     "parameter>\n<" BAR "DSML" BAR "parameter name=\"days\" string=\"false\">2</" BAR "DSML" BAR "parameter>\n</" BAR "DSML" BAR "invoke>\n</" BAR "DSML" BAR "function_calls>", "", "",
     "weather {\"city\":\"12\",\"days\":2};", NULL},

    {"DSML of DeepSeek V4", dsml4, "", "<think>hm</think>Ok.\n\n<" BAR "DSML" BAR "tool_calls>\n<" BAR "DSML" BAR "invoke name=\"weather\">\n<" BAR "DSML" BAR "parameter name=\"city\" string=\"true\">Paris</" BAR
     "DSML" BAR "parameter>\n</" BAR "DSML" BAR "invoke>\n<" BAR "DSML" BAR "invoke name=\"now\">\n</" BAR "DSML" BAR "invoke>\n</" BAR "DSML" BAR "tool_calls>", "Ok.", "hm", PARIS "now {};", NULL},
    {"Hunyuan 3", hunyuan, "<think>", "hm</think>Look.<tool_calls>\n<tool_call>weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n"
     "<tool_call>now<tool_sep>\n</tool_call>\n</tool_calls>", "Look.", "hm", "weather {\"city\":\"Paris\",\"days\":2};now {};", NULL},
    {"Hunyuan 3, on one line", hunyuan, "", "<tool_calls><tool_call>now<tool_sep></tool_call></tool_calls>", "", "", "now {};", NULL},
    {"Hunyuan 3, without the separator", hunyuan, "", "<tool_call>now</tool_call>", "<tool_call>now</tool_call>", "", "", "no name"},
    {"MiniMax M3", minimax3, "<mm:think>", "hm</mm:think>Ok.\n]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"weather\">]<]minimax[>[<city>Paris <b>]<]minimax[>[</city>]<]minimax[>[<days>2]<]minimax[>[</days>"
     "]<]minimax[>[</invoke>\n]<]minimax[>[<invoke name=\"now\">]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>", "Ok.", "hm", "weather {\"city\":\"Paris <b>\",\"days\":2};now {};", NULL},
    {"MiniMax M3, tags in a value", minimax3, "", "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"weather\">\n]<]minimax[>[<deep>]<]minimax[>[<a>]<]minimax[>[<item>1]<]minimax[>[</item>]<]minimax[>[<item>x\ny]<]minimax[>[</item>"
     "]<]minimax[>[</a>]<]minimax[>[<b>]<]minimax[>[<c>true]<]minimax[>[</c>]<]minimax[>[</b>]<]minimax[>[</deep>\n]<]minimax[>[<city>12]<]minimax[>[</city>\n]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>", "", "",
     "weather {\"deep\":{\"a\":[1,\"x\\ny\"],\"b\":{\"c\":true}},\"city\":\"12\"};", NULL},
    {"MiniMax M3, nothing in an object", minimax3, "", "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"weather\">]<]minimax[>[<deep>]<]minimax[>[</deep>]<]minimax[>[<city>]<]minimax[>[</city>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>", "", "",
     "weather {\"deep\":{},\"city\":\"\"};", NULL},
    {"MiniMax M3, tags that cross", minimax3, "", "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"weather\">]<]minimax[>[<deep>]<]minimax[>[<a>1]<]minimax[>[</deep>]<]minimax[>[</a>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>",
     "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"weather\">]<]minimax[>[<deep>]<]minimax[>[<a>1]<]minimax[>[</deep>]<]minimax[>[</a>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>", "", "", "tags"},
    {"MiniMax M3, a list with a member", minimax3, "", "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"weather\">]<]minimax[>[<deep>]<]minimax[>[<item>1]<]minimax[>[</item>]<]minimax[>[<a>1]<]minimax[>[</a>]<]minimax[>[</deep>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>",
     "]<]minimax[>[<tool_call>]<]minimax[>[<invoke name=\"weather\">]<]minimax[>[<deep>]<]minimax[>[<item>1]<]minimax[>[</item>]<]minimax[>[<a>1]<]minimax[>[</a>]<]minimax[>[</deep>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>", "", "", "tags"},
    {"Kimi K3", kimi3, "<|open|>message role=\"assistant\"<|sep|><|open|>think<|sep|>", "hm<|close|>think<|sep|><|open|>response<|sep|>Yes.<|close|>response<|sep|><|close|>message<|sep|>", "Yes.", "hm", "", NULL},
    {"Kimi K3, without reasoning", kimi3, "<|open|>response<|sep|>", "Yes.<|close|>response<|sep|><|close|>message<|sep|>", "Yes.", "", "", NULL},
    {"Kimi K3, calls", kimi3, "<|open|>think<|sep|>", "hm<|close|>think<|sep|><|open|>response<|sep|>Look.<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"weather\" index=\"1\"<|sep|>"
     "<|open|>argument key=\"city\" type=\"string\"<|sep|>12<|close|>argument<|sep|><|open|>argument key=\"deep\" type=\"object\"<|sep|>{\"a\": [1, null]}<|close|>argument<|sep|><|close|>call<|sep|>"
     "<|open|>call tool=\"now\" index=\"2\"<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>", "Look.", "hm", "weather {\"city\":\"12\",\"deep\":{\"a\":[1,null]}};now {};", NULL},
    {"Kimi K3, arguments as JSON", kimi3, "", "<|open|>response<|sep|><|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"weather\" index=\"1\"<|sep|><|open|>json type=\"object\"<|sep|>{\"city\": \"Paris\"}"
     "<|close|>json<|sep|><|close|>call<|sep|><|close|>tools<|sep|>", "", "", PARIS, NULL},

    {"GCML", gcml, "", "<" BAR "GCML" BAR "tool_calls>\n<" BAR "GCML" BAR "invoke name=\"weather\">\n<" BAR "GCML" BAR "parameter name=\"days\" string=\"false\">2</" BAR "GCML" BAR "parameter>\n</" BAR
     "GCML" BAR "invoke>\n</" BAR "GCML" BAR "tool_calls>", "", "", "weather {\"days\":2};", NULL},
    {"LongCat", longcat, "", "Ok.\n<longcat_tool_call>weather\n<longcat_arg_key>city</longcat_arg_key>\n<longcat_arg_value>Paris</longcat_arg_value>\n</longcat_tool_call>\n<longcat_tool_call>now\n</longcat_tool_call>", "Ok.", "",
     PARIS "now {};", NULL},
    {"LongCat, JSON", longcat_json, "", "<longcat_tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n</longcat_tool_call>", "", "", PARIS, NULL},
    {"Apriel", listed, "", "Ok.\n<tool_calls>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}, {\"name\": \"now\", \"arguments\": {}}]</tool_calls>", "Ok.", "", PARIS "now {};", NULL},
    {"MiniMax M1", lines, "", "<tool_calls>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}\n{\"name\": \"now\", \"arguments\": {}}\n</tool_calls>\nDone.", "Done.", "", PARIS "now {};", NULL},
    {"GigaChat 3.1", giga31, "", "Ok.<|message_sep|>\n<|function_call|>{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}<|message_sep|>\n", "Ok.", "", PARIS, NULL},
    {"GigaChat 3", giga3, "", "Ok.<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}", "Ok.", "", PARIS, NULL},
    {"InternLM 2", internlm, "", "Ok.<|action_start|><|plugin|>\n{\"name\": \"weather\", \"parameters\": {\"city\": \"Paris\"}}<|action_end|>", "Ok.", "", PARIS, NULL},
    {"OLMo 3", olmo, "", "Ok.<function_calls>weather(city=\"Paris\")\nnow()</function_calls>", "Ok.", "", PARIS "now {};", NULL},
    {"OLMo 3, words of JSON", olmo, "", "<function_calls>\nweather(deep={\"a\": null}, on=true)\n</function_calls>", "", "", "weather {\"deep\":{\"a\":null},\"on\":true};", NULL},

    {"DeepSeek R1", deepseek, "<think>\n", "hm\n</think>\n\n" DS("tool" BLOCK "calls" BLOCK "begin") DS("tool" BLOCK "call" BLOCK "begin") "function" DS("tool" BLOCK "sep")
     "weather\n```json\n{\"city\": \"Paris\"}\n```" DS("tool" BLOCK "call" BLOCK "end") "\n" DS("tool" BLOCK "call" BLOCK "begin") "function" DS("tool" BLOCK "sep") "now\n```json\n{}\n```"
     DS("tool" BLOCK "call" BLOCK "end") DS("tool" BLOCK "calls" BLOCK "end"), "", "hm", PARIS "now {};", NULL},
    {"DeepSeek V3.1", deepseek, "", "Look:" DS("tool" BLOCK "calls" BLOCK "begin") DS("tool" BLOCK "call" BLOCK "begin") "weather" DS("tool" BLOCK "sep") "{\"city\": \"Paris\"}"
     DS("tool" BLOCK "call" BLOCK "end") DS("tool" BLOCK "call" BLOCK "begin") "now" DS("tool" BLOCK "sep") "{}" DS("tool" BLOCK "call" BLOCK "end") DS("tool" BLOCK "calls" BLOCK "end"),
     "Look:", "", PARIS "now {};", NULL},
    {"Kimi K2", kimi, "", "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{\"city\": \"Paris\"}<|tool_call_end|>"
     "<|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>", "", "",
     "weather#functions.weather:0 {\"city\":\"Paris\"};now#functions.now:1 {};", NULL},
    {"Mistral, a list", mistral, "", "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}, \"id\": \"abcdefghi\"}]", "", "", "weather#abcdefghi {\"city\":\"Paris\"};", NULL},
    {"Mistral, names", mistral, "", "[THINK]hm[/THINK]So.[TOOL_CALLS]weather[CALL_ID]abcdefghi[ARGS]{\"city\": \"Paris\"}[TOOL_CALLS]now[ARGS]{}", "So.", "hm",
     "weather#abcdefghi {\"city\":\"Paris\"};now {};", NULL},
    {"Mistral, no arguments", mistral, "", "[TOOL_CALLS]now[ARGS]", "[TOOL_CALLS]now[ARGS]", "", "", "not complete"},
    {"Solar", solar, "", "<|tool_call:begin|>id1<|tool_call:name|>weather<|tool_call:args|>{\"city\": \"Paris\"}<|tool_call:end|>", "", "", "weather#id1 {\"city\":\"Paris\"};", NULL},
    {"functionary", functionary, "", "<function=weather>{\"city\": \"Paris\"}</function>\n<function=now>{}</function>", "", "", PARIS "now {};", NULL},
    {"Command R", cohere, "", "<|START_THINKING|>hm<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"weather\", \"parameters\": {\"city\": \"Paris\"}}\n]<|END_ACTION|>", "", "hm",
     "weather#0 {\"city\":\"Paris\"};", NULL},
    {"Nemotron", nemotron, "", "<TOOLCALL>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Paris\"}}, {\"name\": \"now\", \"arguments\": {}}]</TOOLCALL>", "", "", PARIS "now {};", NULL},
    {"Granite", granite, "", "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]", "", "", "now {};", NULL},
    {"Phi", granite, "", "<|tool_call|>[{\"name\": \"now\", \"arguments\": {}}]<|/tool_call|>", "", "", "now {};", NULL},
    {"Apertus", apertus, "", "<|inner_prefix|>hm<|inner_suffix|><|tools_prefix|>[{\"weather\": {\"city\": \"Paris\"}}, {\"now\": {}}]<|tools_suffix|>", "", "hm", PARIS "now {};", NULL},
    {"FireFunction", fire, "", " functools[{\"name\": \"now\", \"arguments\": {}}]", "", "", "now {};", NULL},

    {"LFM2", lfm, "", "<|tool_call_start|>[weather(city=\"Paris\", days=-2, deep={'a': [1, None, True], \"b\": ()}), now()]<|tool_call_end|>Wait.", "Wait.", "",
     "weather {\"city\":\"Paris\",\"days\":-2,\"deep\":{\"a\":[1,null,true],\"b\":[]}};now {};", NULL},
    {"LFM2, escapes", lfm, "", "<|tool_call_start|>[weather(city='a\\'b\\n\\u00e9\\x41\\\\')]<|tool_call_end|>", "", "", "weather {\"city\":\"a'b\\n\xc3\xa9" "A\\\\\"};", NULL},
    {"LFM2, not a constant", lfm, "", "<|tool_call_start|>[weather(city=f(x))]<|tool_call_end|>", "<|tool_call_start|>[weather(city=f(x))]<|tool_call_end|>", "", "", "constant"},
    {"tool_code", code, "", "Sure.\n```tool_code\nprint(default_api.weather(city=\"Paris\"))\nnow()\n```", "Sure.", "", PARIS "now {};", NULL},
    {"pythonic", pythonic, "", "[weather(city='Paris'), now()]", "", "", PARIS "now {};", NULL},
    {"pythonic, a text", pythonic, "", "[1] says so", "[1] says so", "", "", NULL},
    {"Gemma 4", gemma4, "", "<|channel>thought\nhm\n<channel|><|tool_call>call:weather{city:<|\"|>Pa, r}is<|\"|>,days:2,deep:{a:[<|\"|>x<|\"|>,null],on:true}}<tool_call|>"
     "<|tool_call>call:now{}<tool_call|>", "", "hm", "weather {\"city\":\"Pa, r}is\",\"days\":2,\"deep\":{\"a\":[\"x\",null],\"on\":true}};now {};", NULL},
    {"FunctionGemma", functiongemma, "", "<start_function_call>call:weather{city:<escape>Paris<escape>}<end_function_call>", "", "", PARIS, NULL},
    {"Gemma 4, wrong", gemma4, "", "<|tool_call>call:weather{city:Paris}<tool_call|>", "<|tool_call>call:weather{city:Paris}<tool_call|>", "", "", "KEY:VALUE"},

    {"Llama 3", llama, "", "{\"name\": \"weather\", \"parameters\": {\"city\": \"Paris\"}}", "", "", PARIS, NULL},
    {"Llama 3, python_tag", llama, "", "<|python_tag|>{\"type\": \"function\", \"name\": \"weather\", \"parameters\": {\"city\": \"Paris\"}}; {\"name\": \"now\", \"parameters\": {}}", "", "", PARIS "now {};", NULL},
    {"Llama 3, between fences", llama, "", "```json\n{\"name\": \"now\", \"parameters\": {}}\n```", "", "", "now {};", NULL},
    {"Llama 3, an answer in JSON", llama, "", "{\"name\": \"Bob\", \"age\": 3}", "{\"name\": \"Bob\", \"age\": 3}", "", "", NULL},
    {"Llama 3, text", llama, "", "It is {\"name\": \"now\"}", "It is {\"name\": \"now\"}", "", "", NULL},
    {"a reply in JSON", bare, "", " {\"name\": \"now\", \"arguments\": {}}\n", "", "", "now {};", NULL},

    {"harmony", harmony, "<|start|>assistant", "<|channel|>analysis<|message|>Need\nit.<|end|><|start|>assistant<|channel|>final<|message|>Yes.", "Yes.", "Need\nit.", "", NULL},
    {"harmony, a call", harmony, "", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"Paris\"}", "", "hm", PARIS, NULL},
    {"harmony, the recipient first", harmony, "", " to=functions.now<|channel|>commentary json<|message|>{}<|call|>", "", "", "now {};", NULL},
    {"harmony, a preamble", harmony, "", "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.now<|message|>{}", "I look.", "", "now {};", NULL},
    {"harmony, no header", harmony, "", "Just text <b>", "Just text <b>", "", "", NULL},
    {"harmony, cut in a header", harmony, "", "<|channel|>analysis<|message|>hm<|end|><|start|>assis", "", "hm", "", NULL},
    {"harmony, not a tool", harmony, "", "<|channel|>commentary to=browser.open<|message|>{}", "{}", "", "", "'browser.open'"},
    {"no form known", plain, "", "{\"name\": \"now\"}", "{\"name\": \"now\"}", "", "", "unknown"},
    {"Unicode", hermes, "", "Gr\xc3\xbc\xc3\x9f" "e <tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Z\xc3\xbcrich\"}}</tool_call>", "Gr\xc3\xbc\xc3\x9f" "e", "", "weather {\"city\":\"Z\xc3\xbcrich\"};", NULL},
};
// clang-format on

static bool same(zt_bytes text, const char *want) { return text.n == strlen(want) && memcmp(text.data, want, text.n) == 0; }

static void list_calls(const zt_reply *reply, zt_str *out)
{
    for (int i = 0; i < zt_reply_call_count(reply); i++) {
        const zt_tool_call *call = zt_reply_call(reply, i);
        zt_str_printf(out, "%s%s%s %s;", call->name, call->id ? "#" : "", call->id ? call->id : "", call->arguments);
    }
}

static void check_case(const reply_case *item, const json_t *tools, size_t piece)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_reply_opts opts = {.template_text = {item->template, strlen(item->template)},
                          .prompt = {item->prompt, strlen(item->prompt)},
                          .tools = tools};
    zt_reply *reply = zt_reply_new(ctx, &opts);
    zt_status status = ZT_OK;
    size_t size = strlen(item->text), grown = 0;
    bool grows = true;
    for (size_t at = 0; status == ZT_OK && at < size; at += piece) {
        status = zt_reply_put(reply, item->text + at, size - at < piece ? size - at : piece, false);
        grows = grows && zt_reply_content(reply).n >= grown;
        grown = zt_reply_content(reply).n;
        grows = grows && grown <= strlen(item->content) && memcmp(zt_reply_content(reply).data, item->content, grown) == 0;
    }
    if (status == ZT_OK) status = zt_reply_end(reply);
    zt_str calls;
    zt_str_init(&calls, ctx);
    list_calls(reply, &calls);
    const char *fault = zt_reply_fault(reply), *found = calls.data ? calls.data : "";
    bool right = status == ZT_OK && grows && same(zt_reply_content(reply), item->content) &&
                 same(zt_reply_reasoning(reply), item->reasoning) && strcmp(found, item->calls) == 0 &&
                 (item->fault ? fault && strstr(fault, item->fault) : !fault);
    if (!ok(right, "%s, by %zu bytes", item->what, piece))
        diag("content '%.*s', reasoning '%.*s', calls %s, fault %s, %s", (int)zt_reply_content(reply).n,
             zt_reply_content(reply).data, (int)zt_reply_reasoning(reply).n, zt_reply_reasoning(reply).data, found,
             fault ? fault : "none", zt_ctx_error(ctx));
    zt_str_fini(&calls);
    zt_reply_free(reply);
    if (zt_mem_get(ctx).blocks) ok(false, "%s: memory was left behind", item->what);
    zt_ctx_free(ctx);
}

static void test_cases(const json_t *tools)
{
    static const size_t pieces[] = {1, 7, 1 << 20};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < 3; k++) check_case(&cases[i], tools, pieces[k]);
}

/* Without tools nothing is a call; control tokens are not content. */
static void test_options(const json_t *tools)
{
    zt_ctx *ctx = zt_ctx_new();
    zt_reply_opts opts = {.template_text = {hermes, strlen(hermes)}};
    static const char text[] = "<tool_call>{\"name\": \"now\"}</tool_call>";
    zt_reply *reply = zt_reply_new(ctx, &opts);
    zt_reply_put(reply, text, strlen(text), false);
    zt_reply_end(reply);
    ok(same(zt_reply_content(reply), text) && !zt_reply_call_count(reply) && !zt_reply_fault(reply), "no tools: no calls");
    ok(zt_reply_put(reply, text, 1, false) == ZT_EUSAGE, "nothing is put after the end");
    zt_reply_free(reply);
    zt_ctx_clear(ctx);
    opts.template_text = (zt_bytes){mistral, strlen(mistral)};
    opts.tools = tools;
    reply = zt_reply_new(ctx, &opts);
    zt_reply_put(reply, "Hi", 2, false);
    zt_reply_put(reply, "<s>", 3, true);
    zt_reply_put(reply, "[TOOL_CALLS]", 12, true);
    zt_reply_put(reply, "now[ARGS]{}", 11, false);
    zt_reply_put(reply, "</s>", 4, true);
    zt_reply_end(reply);
    ok(same(zt_reply_content(reply), "Hi") && zt_reply_call_count(reply) == 1 && !zt_reply_fault(reply),
       "control tokens are marks or nothing");
    zt_reply_free(reply);
    ok(!zt_reply_call(NULL, 0) && zt_reply_call_count(NULL) == 0 && zt_reply_put(NULL, "", 0, false) == ZT_EUSAGE, "no reply");
    zt_bytes none = {plain, strlen(plain)}, known = {llama, strlen(llama)};
    ok(!zt_reply_call_form(none) && !zt_reply_reasoning_form(none) && strcmp(zt_reply_call_form(known), "llama3") == 0,
       "forms by name");
    zt_ctx_free(ctx);
}

/* A long hostile text is taken apart in a time that is linear in it, and is content. */
static void check_long(const char *what, const char *template, const json_t *tools, const char *before, const char *piece,
                       size_t step)
{
    enum { BYTES = 4 << 20 };
    zt_ctx *ctx = zt_ctx_new();
    zt_reply_opts opts = {.template_text = {template, strlen(template)}, .tools = tools};
    zt_reply *reply = zt_reply_new(ctx, &opts);
    size_t size = strlen(piece), all = strlen(before);
    char *text = malloc(BYTES + size + all);
    memcpy(text, before, all);
    for (; all < BYTES; all += size) memcpy(text + all, piece, size);
    clock_t start = clock();
    zt_status status = ZT_OK;
    for (size_t at = 0; at < all && status == ZT_OK; at += step)
        status = zt_reply_put(reply, text + at, all - at < step ? all - at : step, false);
    if (status == ZT_OK) status = zt_reply_end(reply);
    double took = (double)(clock() - start) / CLOCKS_PER_SEC;
    if (!ok(status == ZT_OK && took < 20, "4 MiB of %s, by %zu bytes", what, step)) diag("%.1f s, %s", took, zt_ctx_error(ctx));
    free(text);
    zt_reply_free(reply);
    zt_ctx_free(ctx);
}

static void test_bounds(const json_t *tools)
{
    static const size_t steps[] = {61, SIZE_MAX / 2};
    for (int i = 0; i < 2; i++) {
        check_long("marks", hermes, tools, "", "<tool_call>", steps[i]);
        check_long("marks and brackets", hermes, tools, "", "<tool_call>{", steps[i]);
        check_long("marks in a string", hermes, tools, "<tool_call>{\"", "<tool_call>{", steps[i]);
        check_long("brackets", hermes, tools, "<tool_call>", "[", steps[i]);
        check_long("white space", hermes, tools, "", " ", steps[i]);
        check_long("white space after a mark", mistral, tools, "[TOOL_CALLS]", " ", steps[i]);
        check_long("names", mistral, tools, "", "[TOOL_CALLS]now", steps[i]);
        check_long("calls", mistral, tools, "", "[TOOL_CALLS]now[ARGS]{}", steps[i]);
        check_long("tags", qwen, tools, "", "<tool_call><function=now></function>", steps[i]);
        check_long("a value without an end", qwen, tools, "<tool_call><function=weather><parameter=city>",
                   "x<parameter=", steps[i]);
        check_long("pairs", gemma4, tools, "", "<|tool_call>call:now{", steps[i]);
        check_long("a list as in Python", pythonic, tools, "[weather(deep=", "[", steps[i]);
        check_long("reasoning", hermes, tools, "<think>", "</think", steps[i]);
        check_long("channels", harmony, tools, "", "<|channel|>final<|message|>a<|end|>", steps[i]);
        check_long("one channel", harmony, tools, "<|channel|>commentary to=functions.now<|message|>", "<|en", steps[i]);
        check_long("headers", harmony, tools, "", "<|channel|>", steps[i]);
        check_long("a long header after a message", harmony, tools, "<|channel|>final<|message|>a<|start|>", "assistant",
                   steps[i]);
        check_long("beginnings of headers", harmony, tools, "", "<|start|>", steps[i]);
    }
}

static void test_faults(const json_t *tools)
{
    zt_ctx *ctx = zt_ctx_new();
    int count = 0, wrong = 0;
    static const char text[] =
        "<think>a</think>b<tool_call>{\"name\": \"weather\", \"arguments\": \"{\\\"city\\\": 1}\"}</tool_call><tool_call>{]";
    for (bool done = false; !done && count < 1000;) {
        zt_reply_opts opts = {.template_text = {hermes, strlen(hermes)}, .tools = tools};
        zt_mem_fail(ctx, (uint64_t)++count, false);
        zt_reply *reply = zt_reply_new(ctx, &opts);
        zt_status status = reply ? ZT_OK : ZT_ENOMEM;
        for (size_t i = 0; status == ZT_OK && i < sizeof text - 1; i += 16)
            status = zt_reply_put(reply, text + i, sizeof text - 1 - i < 16 ? sizeof text - 1 - i : 16, false);
        if (status == ZT_OK) status = zt_reply_end(reply);
        done = status == ZT_OK && zt_reply_call_count(reply) == 1 && zt_reply_fault(reply);
        wrong += zt_ctx_status(ctx) != (done ? ZT_OK : ZT_ENOMEM);
        zt_mem_fail(ctx, 0, false);
        zt_ctx_clear(ctx);
        zt_reply_free(reply);
        wrong += zt_mem_get(ctx).blocks != 0;
    }
    ok(count > 5 && count < 1000 && !wrong, "each of %d allocations failing", count - 1);
    zt_ctx_free(ctx);
}

int main(void)
{
    json_t *tools = json_loads(tools_text, 0, NULL);
    test_cases(tools);
    test_options(tools);
    test_bounds(tools);
    test_faults(tools);
    json_decref(tools);
    return tap_done();
}
